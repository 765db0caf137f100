/* The binary files that the device reads instead of JSON.  Integers are little-endian, digests are SHA-256.
 *
 * media.idx, at the root of the OCI layout folder: struct kf_index, then count entries, one per payload.  An entry
 * names the payload header, which is the file blobs/sha256/<hex of its digest>.
 *
 * media.hdr, a payload header: struct kf_header, then n_variants variants, then n_blobs blobs; nothing behind them.
 *
 * golden.bin, what the kernels of a payload must answer: struct kf_golden, then the bytes of each input and of each
 * output as uint64_t in the order of the entry table, then case by case a uint64_t seed for each input, then case by
 * case the expected float32 values of each output; nothing behind them.  Element k of an input with seed s is
 * ((z >> 40) - 2^23) / 2^23, where z is the number k + 1 of splitmix64 started with s.  An answer a agrees with the
 * expected b where |a - b| <= absolute + relative * |b|, or both are the same infinity, or both are no number.
 *
 * kernelfarm/device.py and kernelfarm/golden.py write and read the same; tests hold the two against each other. */
#ifndef KF_FORMAT_H
#define KF_FORMAT_H

#include <stdint.h>

#define KF_FORMAT_VERSION 1u
#define KF_INDEX_MAGIC 0x5849464bu  /* "KFIX" */
#define KF_HEADER_MAGIC 0x4448464bu /* "KFHD" */
#define KF_GOLDEN_MAGIC 0x5647464bu /* "KFGV" */
#define KF_MAX_PAYLOADS 1024u
#define KF_MAX_VARIANTS 16u
#define KF_MAX_BLOBS 64u
#define KF_MAX_CASES 256u   /* of golden vectors */
#define KF_MAX_TENSORS 256u /* in one direction */
#define KF_TARGET_BYTES 32u
#define KF_NONE 0xffffffffu

/* A header names at most one golden blob; it serves all variants. */
enum kf_blob_kind { KF_BLOB_KERNELS = 1, KF_BLOB_WEIGHTS = 2, KF_BLOB_GOLDEN = 3 };

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

struct kf_golden {
    uint32_t magic, version;
    uint64_t bytes; /* of the whole file */
    uint32_t n_cases, n_inputs, n_outputs;
    uint32_t reserved; /* 0 */
    float absolute, relative;
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct kf_index) == 16, "kf_index");
_Static_assert(sizeof(struct kf_index_entry) == 40, "kf_index_entry");
_Static_assert(sizeof(struct kf_header) == 64, "kf_header");
_Static_assert(sizeof(struct kf_variant) == 24, "kf_variant");
_Static_assert(sizeof(struct kf_blob) == 48, "kf_blob");
_Static_assert(sizeof(struct kf_golden) == 40, "kf_golden");
#endif

#endif
