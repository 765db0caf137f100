/* A kernel object for bad_object.c: one tile, and functions of other types that a table must never offer. */
#include <stddef.h>

#include "kf_abi.h"

static void tile(void *ctx, int64_t begin, int64_t end) { *(int64_t *)ctx = end - begin; }
static void other_type(void *ctx) { *(int64_t *)ctx = -1; }
static int64_t returns(void *ctx, int64_t begin, int64_t end) { return *(int64_t *)ctx = -1 - begin - end; }

struct image {
    struct kf_table t;
    struct kf_function f[3];
};

extern const struct image kf_table;
__attribute__((visibility("default"))) const struct image kf_table = {
    .t = {.magic = KF_TABLE_MAGIC,
          .bytes = sizeof(struct image),
          .abi_version = KF_ABI_VERSION,
          .ir_version = KF_IR_VERSION,
          .n_functions = 3,
          .off_functions = offsetof(struct image, f),
          .alignment = KF_ALIGNMENT},
    .f = {{.type_id = ~KF_TILE_TYPE_INVERTED, .u = {.fn = tile}},
          {.type_id = ~KF_TILE_TYPE_INVERTED, .u = {.fn = (kf_tile *)(void (*)(void))other_type}},
          {.type_id = ~KF_TILE_TYPE_INVERTED, .u = {.fn = (kf_tile *)(void (*)(void))returns}}},
};
