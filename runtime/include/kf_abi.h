/* The contract between a kernel object (kernels.so) and the runtime that loads it.
 *
 * A kernel object exports one symbol, `kf_table` (also its e_entry): one contiguous read-only image
 *
 *     struct { struct kf_table t; struct kf_function f[F]; struct kf_op o[O]; struct kf_operand p[P];
 *              struct kf_tensor n[T]; char strings[S]; }
 *
 * Every reference inside it is a byte offset from the start of the image; the function pointers are the only relocated
 * fields.  All integers are little-endian on every target.  The image lives in RELRO: after loading nothing in a kernel
 * object is writable, so two engines may share nothing and never disturb each other.
 *
 * What a kernel may assume of its pointers:
 *   arena, weights, scratch   start at a multiple of KF_ALIGNMENT; kf_operand.offset is a multiple of KF_ALIGNMENT;
 *   input, output             are aligned to their element type only (4 bytes for f32);
 *   every operand             exactly kf_operand.bytes bytes may be touched, not one more;
 *   arena                     holds anything at the start of an inference (nothing may be read before it is written).
 * What a kernel may not do: call through a pointer, keep state between calls, depend on how [0, parts) is cut, or touch
 * in one part what another part writes, since they may run at once on several threads. */
#ifndef KF_ABI_H
#define KF_ABI_H

#include <stdint.h>

#define KF_ABI_VERSION 1u
#define KF_TABLE_MAGIC 0x4b544631u /* "1FTK" in memory */
#define KF_ALIGNMENT 64u
#define KF_MAX_RANK 8u
#define KF_MAX_TENSORS 256u /* inputs and outputs together */

/* Semantic version of the compiler's IR, 8.12.12 bits: another major number is refused on the device. */
#define KF_VERSION(major, minor, patch) (((uint32_t)(major) << 24) | ((uint32_t)(minor) << 12) | (uint32_t)(patch))
#define KF_VERSION_MAJOR(v) ((v) >> 24)
#define KF_IR_VERSION KF_VERSION(0, 1, 0)

/* A tile: computes the parts [begin, end) of one operation.  ctx is a struct kf_ctx. */
typedef void kf_tile(void *ctx, int64_t begin, int64_t end);

/* KCFI id of kf_tile with normalised integers ("_ZTSFvPvu3i64S0_E.normalized"), the same on every target.  Kept
 * inverted: as a plain immediate it would turn the instruction behind it into a valid target. */
#define KF_TILE_TYPE_INVERTED (~1774936839u)

struct kf_ctx {
    void *const *operands; /* operands[i] = address of the i-th operand of the running op */
    void *scratch;         /* scratch_bytes bytes, private to the calling thread */
};

enum kf_space { KF_ARENA = 0, KF_WEIGHTS = 1, KF_INPUT = 2, KF_OUTPUT = 3 };
enum kf_dtype { KF_F32 = 1 };
enum kf_direction { KF_IN = 0, KF_OUT = 1 };

struct kf_table {
    uint32_t magic;       /* KF_TABLE_MAGIC */
    uint32_t bytes;       /* of the whole image */
    uint32_t abi_version; /* KF_ABI_VERSION */
    uint32_t ir_version;  /* KF_VERSION(...) */
    uint32_t n_functions, n_ops, n_operands, n_tensors;
    uint32_t off_functions, off_ops, off_operands, off_tensors, off_strings;
    uint32_t n_strings; /* bytes of strings */
    uint64_t arena_bytes, weights_bytes, scratch_bytes;
    uint32_t alignment; /* KF_ALIGNMENT */
    uint32_t reserved;  /* 0 */
};

struct kf_function {
    uint64_t name_hash; /* FNV-1a 64 of the symbol name */
    uint32_t type_id;   /* 1774936839 */
    uint32_t reserved;  /* 0 */
    union {
        kf_tile *fn; /* relocated */
        uint64_t pad;
    } u;
};

/* The runtime calls function(ctx, b, e) over a partition of [0, parts); ops run in table order. */
struct kf_op {
    uint32_t function, first_operand, n_operands, reserved;
    uint64_t parts;
};

struct kf_operand {
    uint32_t space; /* enum kf_space */
    uint32_t index; /* input, output: number among the inputs / among the outputs, in table order; else 0 */
    uint64_t offset, bytes;
};

struct kf_tensor {
    uint32_t name_offset, name_length; /* in strings, not terminated */
    uint32_t dtype, rank, direction, reserved;
    int64_t dims[KF_MAX_RANK]; /* unused ones are 0 */
    uint64_t bytes;
    uint64_t quantisation[4]; /* 0 for floating point */
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct kf_table) == 88, "kf_table");
_Static_assert(sizeof(struct kf_function) == 24, "kf_function");
_Static_assert(sizeof(struct kf_op) == 24, "kf_op");
_Static_assert(sizeof(struct kf_operand) == 24, "kf_operand");
_Static_assert(sizeof(struct kf_tensor) == 128, "kf_tensor");
#endif

#endif
