/* The two binary files that the device reads instead of JSON.  Integers are little-endian, digests are SHA-256.
 *
 * media.idx, at the root of the OCI layout folder: struct kf_index, then count entries, one per payload.  An entry
 * names the payload header, which is the file blobs/sha256/<hex of its digest>.
 *
 * media.hdr, a payload header: struct kf_header, then n_variants variants, then n_blobs blobs; nothing behind them.
 * kernelfarm/device.py writes and reads the same; a test holds the two against each other. */
#ifndef KF_FORMAT_H
#define KF_FORMAT_H

#include <stdint.h>

#define KF_FORMAT_VERSION 1u
#define KF_INDEX_MAGIC 0x5849464bu  /* "KFIX" */
#define KF_HEADER_MAGIC 0x4448464bu /* "KFHD" */
#define KF_MAX_PAYLOADS 1024u
#define KF_MAX_VARIANTS 16u
#define KF_MAX_BLOBS 64u
#define KF_TARGET_BYTES 32u
#define KF_NONE 0xffffffffu

enum kf_blob_kind { KF_BLOB_KERNELS = 1, KF_BLOB_WEIGHTS = 2 };

struct kf_index {
    uint32_t magic, version;
    uint32_t bytes; /* of the whole file */
    uint32_t count;
};

struct kf_index_entry {
    uint8_t sha256[32];
    uint64_t size;
};

struct kf_header {
    uint32_t magic, version;
    uint32_t bytes;   /* of the whole file */
    uint32_t machine; /* ELF e_machine */
    uint32_t abi_version, ir_version;
    uint32_t n_variants, n_blobs;
    char target[KF_TARGET_BYTES]; /* zero-padded, at most 31 characters */
};

/* One way to run the payload; the device takes the highest preference whose features it has. */
struct kf_variant {
    uint64_t cpu_features; /* bits of the machine's feature list; an unknown bit counts as missing */
    uint32_t preference;
    uint32_t kernels, weights; /* indices of blobs; weights may be KF_NONE */
    uint32_t reserved;         /* 0 */
};

struct kf_blob {
    uint32_t kind;
    uint32_t reserved; /* 0 */
    uint64_t size;
    uint8_t sha256[32];
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct kf_index) == 16, "kf_index");
_Static_assert(sizeof(struct kf_index_entry) == 40, "kf_index_entry");
_Static_assert(sizeof(struct kf_header) == 64, "kf_header");
_Static_assert(sizeof(struct kf_variant) == 24, "kf_variant");
_Static_assert(sizeof(struct kf_blob) == 48, "kf_blob");
#endif

#endif
