/* A piece of memory and the files of a bundle that are read into one. */
#ifndef KF_BYTES_H
#define KF_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "media_engine.h"

struct kf_bytes {
    void *at; /* from kf_os_allocate, or null */
    size_t size;
};

/* Whether [offset, offset + bytes) lies in [0, limit); never overflows. */
static inline int kf_within(uint64_t offset, uint64_t bytes, uint64_t limit) {
    return offset <= limit && bytes <= limit - offset;
}

/* The whole of a regular file of 1 to limit bytes; error messages call it by its path. */
int kf_read_file(int folder, const char *path, uint64_t limit, struct kf_bytes *out, MediaError *error);

/* The blob of a digest, which must have this size.  Its bytes are not yet checked. */
int kf_read_blob(int folder, const uint8_t digest[32], uint64_t size, struct kf_bytes *out, MediaError *error);

int kf_digest_mismatch(const uint8_t digest[32], MediaError *error); /* MEDIA_E_DIGEST naming the blob */
void kf_release(struct kf_bytes *bytes);

#endif
