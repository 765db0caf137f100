#include "golden.h"

#include "error.h"

#define MAX_BYTES ((uint64_t)1 << 40)

static int bad(MediaError *error, const char *why) { return kf_fail_about(error, MEDIA_E_GOLDEN, "golden vectors", why); }

static int check_head(const struct kf_golden *h, uint64_t size, MediaError *error) {
    if (size < sizeof *h) return bad(error, "shorter than their fixed part");
    if (h->magic != KF_GOLDEN_MAGIC) return bad(error, "not golden vectors");
    if (h->version != KF_FORMAT_VERSION) return bad(error, "of a format version that this runtime does not know");
    if (h->reserved) return bad(error, "reserved field in use");
    if (!h->n_cases || h->n_cases > KF_MAX_CASES) return bad(error, "number of cases out of range");
    if (h->n_inputs > KF_MAX_TENSORS || !h->n_outputs || h->n_outputs > KF_MAX_TENSORS)
        return bad(error, "number of tensors out of range");
    if (!(h->absolute >= 0.0f && h->absolute < 1.0f && h->relative >= 0.0f && h->relative < 1.0f))
        return bad(error, "a tolerance out of range");
    return MEDIA_OK;
}

int kf_golden_read(const struct kf_bytes *file, struct kf_golden_view *out, MediaError *error) {
    const struct kf_golden *h = file->at;
    int code = check_head(h, file->size, error);
    if (code) return code;
    uint64_t tensors = h->n_inputs + h->n_outputs, seeds = (uint64_t)h->n_cases * h->n_inputs, values = 0;
    uint64_t tables = sizeof *h + 8 * (tensors + seeds); /* at most 40 + 8 * (512 + 65536) */
    if (h->bytes != file->size || tables > file->size) return bad(error, "their size does not fit their tables");
    out->head = h;
    out->inputs = (const void *)(h + 1);
    out->outputs = out->inputs + h->n_inputs;
    out->seeds = out->outputs + h->n_outputs;
    out->values = (const void *)(out->seeds + seeds);
    for (uint64_t k = 0; k < tensors; k++) {
        if (!out->inputs[k] || out->inputs[k] % 4 || out->inputs[k] >= MAX_BYTES)
            return bad(error, "size of a tensor out of range");
        if (k >= h->n_inputs) values += out->inputs[k]; /* at most 256 * 2^40 */
    }
    return tables + h->n_cases * values == file->size ? MEDIA_OK : bad(error, "their size does not fit their tensors");
}

/* splitmix64 (Steele, Lea and Flood, 2014); kernelc/numerics/seeded.py is the same. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void kf_golden_fill(float *to, uint64_t count, uint64_t seed) {
    for (uint64_t k = 0; k < count; k++) to[k] = (float)((int32_t)(next(&seed) >> 40) - (1 << 23)) * 0x1p-23f;
}

static float distance(float a, float b) {
    if (a == b || (a != a && b != b)) return 0.0f; /* equal infinities, or both no number */
    return a < b ? b - a : a - b;
}

static int agrees(const struct kf_golden *head, float error, float b) {
    float bound = head->absolute + head->relative * (b < 0.0f ? -b : b);
    return error == 0.0f || (error <= bound && bound <= 3e38f); /* false where error is no number */
}

void kf_golden_compare(const struct kf_golden *head, const float *answered, const float *expected, uint64_t count,
                       uint32_t case_number, struct kf_golden_worst *worst) {
    for (uint64_t k = 0; k < count; k++) {
        float error = distance(answered[k], expected[k]);
        int failed = !agrees(head, error, expected[k]);
        int larger = !(error <= worst->error); /* also where error is no number */
        if (larger && worst->error == worst->error) worst->error = error;
        if (worst->failed || !(failed || larger)) continue;
        worst->failed = failed;
        worst->case_number = case_number;
        worst->element = k;
        worst->answered = answered[k];
        worst->expected = expected[k];
    }
}
