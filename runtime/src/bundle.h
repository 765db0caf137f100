/* media.idx, the payload headers and golden vectors: which kernels of the bundle this machine takes. */
#ifndef KF_BUNDLE_H
#define KF_BUNDLE_H

#include "bytes.h"
#include "kf_format.h"

struct kf_choice {
    char target[KF_TARGET_BYTES];
    struct kf_blob kernels, weights; /* weights.size is 0 where there are none */
    struct kf_blob golden; /* size 0: none */
    uint32_t abi_version, ir_version;
    uint32_t preference;
};

/* What the device offers. */
struct kf_device {
    uint32_t machine;
    uint64_t features;
};

/* Checks sizes and ranges of the bytes of media.idx / of a payload header. */
int kf_index_check(const struct kf_bytes *file, MediaError *error);
int kf_header_check(const struct kf_bytes *file, MediaError *error);

/* Calls nothing, maps nothing executable: reads media.idx and every header, and chooses.  target may be null. */
int kf_bundle_choose(int folder, const char *target, const struct kf_device *device, struct kf_choice *choice,
                     MediaError *error);

#endif
