/* One inference: check the caller's tensors, then run the operations in order. */
#include "cpu.h"
#include "engine.h"
#include "error.h"

#define MAX_TENSOR_STRUCT 4096u
#define LEAST_SHARE_BYTES 16384u
#define SHARES_PER_THREAD 4u

static int refuse(MediaError *error, int code, const struct kf_engine *e, const struct kf_tensor *n, const char *why) {
    char name[2] = {0, 0};
    kf_fail(error, code, n->direction == KF_IN ? "input " : "output ");
    for (uint32_t k = 0; k < n->name_length && k < 64; k++) {
        name[0] = e->plan->strings[n->name_offset + k];
        kf_add(error, name);
    }
    kf_add(error, ": ");
    kf_add(error, why);
    return code;
}

/* The k-th struct of a caller whose MediaTensor may be larger than ours. */
static const MediaTensor *nth(const MediaTensor *tensors, uint32_t k) {
    return (const void *)((const uint8_t *)tensors + (size_t)k * tensors->size);
}

static int check_shape(const MediaTensor *t, const struct kf_tensor *n) {
    if (t->dtype && t->dtype != n->dtype) return 0;
    if (t->rank && t->rank != n->rank) return 0;
    for (uint32_t k = 0; k < t->rank; k++)
        if (t->dims[k] != n->dims[k]) return 0;
    return 1;
}

static int check_tensors(const struct kf_engine *e, const MediaTensor *tensors, uint32_t direction, MediaError *error) {
    uint32_t count = direction == KF_IN ? e->plan->n_inputs : e->plan->n_outputs;
    if (!count) return MEDIA_OK;
    if (!tensors) return kf_fail(error, MEDIA_E_ARGUMENT, direction == KF_IN ? "no inputs" : "no outputs");
    if (tensors->size < sizeof *tensors || tensors->size > MAX_TENSOR_STRUCT || tensors->size % 8)
        return kf_fail(error, MEDIA_E_VERSION, "MediaTensor of an unknown size");
    for (uint32_t k = 0; k < count; k++) {
        const MediaTensor *t = nth(tensors, k);
        const struct kf_tensor *n = kf_plan_tensor(e->plan, direction, k);
        if (t->size != tensors->size || t->version != MEDIA_API_VERSION)
            return refuse(error, MEDIA_E_VERSION, e, n, "MediaTensor of an unknown version");
        if (!t->data) return refuse(error, MEDIA_E_ARGUMENT, e, n, "no data");
        if ((uintptr_t)t->data % 4) return refuse(error, MEDIA_E_TENSOR, e, n, "data not aligned to its element type");
        if (t->bytes != n->bytes) {
            refuse(error, MEDIA_E_TENSOR, e, n, "has ");
            kf_add_number(error, t->bytes);
            kf_add(error, " bytes, must have ");
            kf_add_number(error, n->bytes);
            return MEDIA_E_TENSOR;
        }
        if (!check_shape(t, n)) return refuse(error, MEDIA_E_TENSOR, e, n, "element type or shape not as described");
    }
    return MEDIA_OK;
}

static int overlap(const MediaTensor *a, const MediaTensor *b) {
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x < y + b->bytes && y < x + a->bytes;
}

static int check_overlap(const struct kf_engine *e, const MediaTensor *inputs, const MediaTensor *outputs,
                         MediaError *error) {
    for (uint32_t k = 0; k < e->plan->n_outputs; k++) {
        int clash = 0;
        for (uint32_t j = 0; j < e->plan->n_inputs; j++) clash |= overlap(nth(outputs, k), nth(inputs, j));
        for (uint32_t j = 0; j < k; j++) clash |= overlap(nth(outputs, k), nth(outputs, j));
        if (clash)
            return refuse(error, MEDIA_E_TENSOR, e, kf_plan_tensor(e->plan, KF_OUT, k), "overlaps another tensor");
    }
    return MEDIA_OK;
}

static void *address(const struct kf_engine *e, const struct kf_operand *p, const MediaTensor *inputs,
                     const MediaTensor *outputs) {
    uint8_t *base;
    switch (p->space) {
    case KF_ARENA: base = e->arena.at; break;
    case KF_WEIGHTS: base = e->weights.at; break;
    case KF_INPUT: base = nth(inputs, p->index)->data; break;
    default: base = nth(outputs, p->index)->data; break;
    }
    return base + p->offset;
}

/* Into how many ranges an operation is cut for several threads: each touches so much memory that computing it takes
 * longer than handing it over, and there are so many that who begins late leaves little to wait for.  Below 2 it is the
 * caller's alone. */
static uint32_t shares(const struct kf_engine *e, const struct kf_step *step) {
    uint64_t most = e->threads * SHARES_PER_THREAD, worth = step->bytes / LEAST_SHARE_BYTES;
    return e->pool ? (uint32_t)(worth < most ? worth : most) : 1;
}

static void run_step(struct kf_engine *e, const struct kf_step *step, const MediaTensor *inputs,
                     const MediaTensor *outputs) {
    void **operands = e->operands.at;
    for (uint64_t k = 0; k < step->n_operands; k++) operands[k] = address(e, &step->operands[k], inputs, outputs);
    uint32_t shared = shares(e, step), ranges = shared > e->partitions ? shared : e->partitions;
    if (ranges > step->parts) ranges = (uint32_t)step->parts;
    struct kf_job job = {step->function, operands, step->parts, ranges};
    kf_pool_run(shared > 1 && ranges > 1 ? e->pool : NULL, &job, e->scratch.at);
}

int kf_engine_run(struct kf_engine *e, const MediaTensor *inputs, MediaTensor *outputs, MediaError *error) {
    int code = check_tensors(e, inputs, KF_IN, error);
    if (!code) code = check_tensors(e, outputs, KF_OUT, error);
    if (!code) code = check_overlap(e, inputs, outputs, error);
    if (code) return code;
    uint32_t mode = kf_cpu_float_begin();
    for (uint32_t k = 0; k < e->plan->n_steps; k++) run_step(e, &e->plan->steps[k], inputs, outputs);
    kf_cpu_float_end(mode);
    return MEDIA_OK;
}
