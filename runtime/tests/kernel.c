/* A kernel object written by hand for the tests of the loader: y = 2 * (x + w) on N values, in two operations. */
#include <stddef.h>

#include "kf_abi.h"

#ifndef N
#define N 1024
#endif
#ifndef KF_TEST_IR
#define KF_TEST_IR KF_IR_VERSION
#endif
#ifndef KF_TEST_NAMES
#define KF_TEST_NAMES xy
#endif
#define QUOTE_(text) #text
#define QUOTE(text) QUOTE_(text)
#ifndef SCALE
#define SCALE 2.0f
#endif

#define PART 16
#ifdef KF_TEST_SCALAR /* loops that go value by value; a negative end, which never comes, would bring whole registers */
#define LOOPS(body)                                                             \
    {                                                                           \
        typedef float run;                                                      \
        _Pragma("clang loop vectorize(disable) interleave(disable)")            \
        for (int64_t k = begin * PART; k < end * PART; k++) body                \
    }                                                                           \
    if (end < 0) {                                                              \
        typedef part run;                                                       \
        const int64_t k = begin;                                                \
        body                                                                    \
    }
#else
#define LOOPS(body)                                                             \
    typedef part run;                                                           \
    for (int64_t k = begin * PART; k < end * PART; k += PART) body
#endif
#define AT(base) (*(run *)((base) + k))

/* Whole registers of any machine, at any address of a float. */
typedef float part __attribute__((vector_size(4 * PART), aligned(4), may_alias));

static void add(void *ctx, int64_t begin, int64_t end) {
    const struct kf_ctx *c = ctx;
    float *x = c->operands[0], *w = c->operands[1], *t = c->operands[2];
    LOOPS({ AT(t) = AT(x) + AT(w); })
}

static void scale(void *ctx, int64_t begin, int64_t end) {
    const struct kf_ctx *c = ctx;
    float *t = c->operands[0], *y = c->operands[1];
    LOOPS({ AT(y) = SCALE * AT(t); })
}

struct image {
    struct kf_table t;
    struct kf_function f[2];
    struct kf_op o[2];
    struct kf_operand p[5];
    struct kf_tensor n[2];
    char s[24];
};

extern const struct image kf_table;
__attribute__((visibility("default"))) const struct image kf_table = {
    .t = {.magic = KF_TABLE_MAGIC,
          .bytes = sizeof(struct image),
          .abi_version = KF_ABI_VERSION,
          .ir_version = KF_TEST_IR,
          .n_functions = 2,
          .n_ops = 2,
          .n_operands = 5,
          .n_tensors = 2,
          .off_functions = offsetof(struct image, f),
          .off_ops = offsetof(struct image, o),
          .off_operands = offsetof(struct image, p),
          .off_tensors = offsetof(struct image, n),
          .off_strings = offsetof(struct image, s),
          .n_strings = sizeof((struct image *)0)->s,
          .arena_bytes = N * 4,
          .weights_bytes = N * 4,
          .scratch_bytes = 0,
          .alignment = KF_ALIGNMENT},
    .f = {{.name_hash = 0x3f6a3c9d00000001u, .type_id = ~KF_TILE_TYPE_INVERTED, .u = {.fn = add}},
          {.name_hash = 0x3f6a3c9d00000002u, .type_id = ~KF_TILE_TYPE_INVERTED, .u = {.fn = scale}}},
    .o = {{.function = 0, .first_operand = 0, .n_operands = 3, .parts = N / PART},
          {.function = 1, .first_operand = 3, .n_operands = 2, .parts = N / PART}},
    .p = {{.space = KF_INPUT, .bytes = N * 4},
          {.space = KF_WEIGHTS, .bytes = N * 4},
          {.space = KF_ARENA, .bytes = N * 4},
          {.space = KF_ARENA, .bytes = N * 4},
          {.space = KF_OUTPUT, .bytes = N * 4}},
    .n = {{.name_offset = 0,
           .name_length = 1,
           .dtype = KF_F32,
           .rank = 2,
           .direction = KF_IN,
           .dims = {1, N},
           .bytes = N * 4},
          {.name_offset = 1,
           .name_length = 1,
           .dtype = KF_F32,
           .rank = 2,
           .direction = KF_OUT,
           .dims = {1, N},
           .bytes = N * 4}},
    .s = QUOTE(KF_TEST_NAMES),
};
