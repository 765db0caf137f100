/* From an untrusted table to a list of what may run. */
#ifndef KF_ADMIT_H
#define KF_ADMIT_H

#include "image.h"

struct kf_step {
    kf_tile *function;
    const struct kf_operand *operands; /* in the table, which is read-only */
    uint64_t n_operands;
    int64_t parts;
    uint64_t bytes; /* of all operands */
};

/* Lives in pages of its own that are read-only once it is made. */
struct kf_plan {
    size_t bytes;
    uint32_t n_steps, most_operands;
    uint32_t n_inputs, n_outputs;
    const struct kf_table *table;
    const struct kf_tensor *tensors;
    const char *strings;
    struct kf_step steps[];
};

/* Checks the whole table and copies the functions that passed into a plan. */
int kf_admit(const struct kf_image *image, uint64_t weights_bytes, const struct kf_plan **plan, MediaError *error);
void kf_plan_release(const struct kf_plan *plan);

/* The index-th tensor of a direction, or null. */
const struct kf_tensor *kf_plan_tensor(const struct kf_plan *plan, uint32_t direction, uint32_t index);

#endif
