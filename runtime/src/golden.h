/* Golden vectors: inputs from seeds, and how answers compare with the expected ones. */
#ifndef KF_GOLDEN_H
#define KF_GOLDEN_H

#include "bytes.h"
#include "kf_format.h"

/* A file of golden vectors taken apart; its bytes stay where they were. */
struct kf_golden_view {
    const struct kf_golden *head;
    const uint64_t *inputs, *outputs; /* bytes of each */
    const uint64_t *seeds;            /* head->n_inputs for each case */
    const float *values;              /* case by case, output by output */
};

/* The value of one output that agrees least, over all that were compared with it. */
struct kf_golden_worst {
    float error;    /* largest |a - b| */
    uint32_t failed; /* whether any value is outside its tolerance; the place is then that of the first such */
    uint32_t case_number;
    uint64_t element;
    float answered, expected;
};

int kf_golden_read(const struct kf_bytes *file, struct kf_golden_view *out, MediaError *error); /* checks all sizes */
void kf_golden_fill(float *to, uint64_t count, uint64_t seed);
void kf_golden_compare(const struct kf_golden *head, const float *answered, const float *expected, uint64_t count,
                       uint32_t case_number, struct kf_golden_worst *worst);

#endif
