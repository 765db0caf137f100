/* One inference: check the caller's tensors, then run the operations in order. */
#include "call.h"
#include "cpu.h"
#include "engine.h"
#include "error.h"

#define MAX_TENSOR_STRUCT 4096u

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

/* The w-th of n ranges of [0, parts), as even as can be; the same whatever runs them. */
static int64_t cut(int64_t parts, uint32_t w, uint32_t n) { return parts / n * w + parts % n * w / n; }

static void run_step(struct kf_engine *e, const struct kf_step *step, const MediaTensor *inputs,
                     const MediaTensor *outputs) {
    void **operands = e->operands.at;
    for (uint64_t k = 0; k < step->n_operands; k++) operands[k] = address(e, &step->operands[k], inputs, outputs);
    struct kf_ctx ctx = {operands, e->scratch.at};
    for (uint32_t w = 0; w < e->partitions; w++) {
        int64_t begin = cut(step->parts, w, e->partitions), end = cut(step->parts, w + 1, e->partitions);
        if (begin < end) kf_call(step->function, &ctx, begin, end);
    }
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
