#include "self_test.h"

#include "digest.h"
#include "engine.h"
#include "error.h"
#include "golden.h"
#include "options.h"
#include "os.h"
#include "text.h"

struct test {
    MediaEngine *engine;
    MediaEngineInfo info;
    MediaTensor inputs[MAX_TENSORS], outputs[MAX_TENSORS];
    struct kf_golden_worst worst[MAX_TENSORS];
};

static int read_golden(const MediaEngine *engine, const char *path, struct kf_bytes *file, MediaError *error) {
    const struct kf_blob *blob = &kf_engine_of(engine)->choice.golden;
    if (!blob->size) return kf_fail(error, MEDIA_E_GOLDEN, "the payload has no golden vectors");
    int folder = kf_os_open_folder(path);
    if (folder < 0) return kf_fail_system(error, path, folder);
    int code = kf_read_blob(folder, blob->sha256, blob->size, file, error);
    kf_os_close(folder);
    if (!code && !kf_digest_is(file->at, file->size, blob->sha256)) code = kf_digest_mismatch(blob->sha256, error);
    return code;
}

/* Memory for the tensors of one direction; their sizes must be those that the vectors are made for. */
static int make(struct test *t, uint32_t direction, const uint64_t *sizes, uint32_t count, MediaError *error) {
    MediaTensor *tensors = direction == MEDIA_INPUT ? t->inputs : t->outputs;
    uint32_t wanted = direction == MEDIA_INPUT ? t->info.inputs : t->info.outputs;
    if (count != wanted) return kf_fail(error, MEDIA_E_GOLDEN, "golden vectors: for another number of tensors");
    for (uint32_t k = 0; k < count; k++) {
        MediaTensorInfo n = MEDIA_TENSOR_INFO_INIT;
        media_engine_describe(t->engine, direction, k, &n);
        if (n.bytes != sizes[k]) return kf_fail_about(error, MEDIA_E_GOLDEN, n.name, "golden vectors of another size");
        tensors[k] = (MediaTensor)MEDIA_TENSOR_INIT;
        tensors[k].bytes = n.bytes;
        tensors[k].data = kf_os_allocate(n.bytes);
        if (!tensors[k].data) return kf_fail_about(error, MEDIA_E_NO_MEMORY, n.name, "no memory for this tensor");
    }
    return MEDIA_OK;
}

static int run_cases(struct test *t, const struct kf_golden_view *golden, MediaError *error) {
    const uint64_t *seed = golden->seeds;
    const float *expected = golden->values;
    for (uint32_t c = 0; c < golden->head->n_cases; c++) {
        for (uint32_t k = 0; k < t->info.inputs; k++)
            kf_golden_fill(t->inputs[k].data, t->inputs[k].bytes / 4, *seed++);
        int code = media_engine_infer(t->engine, t->inputs, t->outputs);
        if (code) {
            media_engine_last_error(t->engine, error);
            return code;
        }
        for (uint32_t k = 0; k < t->info.outputs; k++) {
            uint64_t count = t->outputs[k].bytes / 4;
            kf_golden_compare(golden->head, t->outputs[k].data, expected, count, c, &t->worst[k]);
            expected += count;
        }
    }
    return MEDIA_OK;
}

static void real(struct text *line, const char *label, float value) {
    text_add(line, label);
    if (value < 0.0f) text_add(line, "-");
    text_real(line, value < 0.0f ? -value : value);
}

static void number(struct text *line, const char *label, uint64_t value) {
    text_add(line, label);
    text_number(line, value);
}

static int report(const struct test *t, uint32_t cases) {
    uint32_t failed = 0;
    for (uint32_t k = 0; k < t->info.outputs; k++) {
        const struct kf_golden_worst *w = &t->worst[k];
        MediaTensorInfo n = MEDIA_TENSOR_INFO_INIT;
        struct text line = {.fd = 1};
        media_engine_describe(t->engine, MEDIA_OUTPUT, k, &n);
        text_add(&line, w->failed ? "BAD " : "ok ");
        text_add(&line, n.name);
        number(&line, " cases=", cases);
        real(&line, " max_abs_error=", w->error);
        number(&line, " case=", w->case_number);
        number(&line, " element=", w->element);
        real(&line, " answered=", w->answered);
        real(&line, " expected=", w->expected);
        text_line(&line);
        failed += w->failed;
    }
    return failed == 0;
}

int self_test(MediaEngine *engine, const char *folder, MediaError *error) {
    struct kf_bytes file = {NULL, 0};
    struct kf_golden_view golden;
    struct test *t = kf_os_allocate(sizeof *t);
    if (!t) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for the self-test");
    t->engine = engine;
    t->info = (MediaEngineInfo)MEDIA_ENGINE_INFO_INIT;
    media_engine_info(engine, &t->info);
    for (uint32_t k = 0; k < MAX_TENSORS; k++) t->worst[k].error = -1.0f; /* the first value is the worst so far */
    int code = read_golden(engine, folder, &file, error);
    if (!code) code = kf_golden_read(&file, &golden, error);
    if (!code) code = make(t, MEDIA_INPUT, golden.inputs, golden.head->n_inputs, error);
    if (!code) code = make(t, MEDIA_OUTPUT, golden.outputs, golden.head->n_outputs, error);
    if (!code) code = run_cases(t, &golden, error);
    if (!code && !report(t, golden.head->n_cases))
        code = kf_fail(error, MEDIA_E_GOLDEN, "a value is outside its tolerance: do not use these kernels here");
    return code;
}
