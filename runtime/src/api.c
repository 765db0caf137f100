/* The exported functions: null checks, struct versions, and where errors go. */
#include "engine.h"
#include "error.h"
#include "memory.h"

static MediaError fresh(void) {
    MediaError error = MEDIA_ERROR_INIT;
    return error;
}

/* Whether a caller's struct is one that this version can fill. */
static int fits(const uint32_t *size_and_version, size_t bytes) {
    return size_and_version[0] >= bytes && size_and_version[1] == MEDIA_API_VERSION;
}

static void give_error(MediaError *to, const MediaError *from) {
    if (!to || !fits(&to->size, sizeof *to)) return;
    to->code = from->code;
    memcpy(to->message, from->message, sizeof to->message);
}

uint32_t media_api_version(void) { return MEDIA_API_VERSION; }

const char *media_code_name(int code) {
    static const char names[][16] = {"ok",         "argument",     "version", "no-memory", "system", "not-found",
                                     "not-a-file", "index",        "header",  "size",      "digest", "abi",
                                     "ir-version", "machine",      "cpu",     "target",    "elf",    "elf-policy",
                                     "table",      "not-admitted", "tensor",  "self-test",    "golden"};
    return code >= 0 && (size_t)code < sizeof names / sizeof names[0] ? names[code] : "unknown";
}

int media_engine_open(const char *model_path, const MediaConfig *config, MediaEngine **engine, MediaError *error) {
    MediaError found = fresh();
    struct kf_engine *e = NULL;
    int code = engine ? kf_engine_open(model_path, config, &e, &found)
                      : kf_fail(&found, MEDIA_E_ARGUMENT, "no place for the engine");
    if (engine) *engine = code ? NULL : &e->handle;
    give_error(error, &found);
    return code;
}

MediaEngine *media_engine_create(const char *model_path, const MediaConfig *config) {
    MediaEngine *engine = NULL;
    MediaError *error = config && fits(&config->size, sizeof *config) ? config->error : NULL;
    media_engine_open(model_path, config, &engine, error);
    return engine;
}

int media_engine_infer(MediaEngine *eng, const MediaTensor *inputs, MediaTensor *outputs) {
    struct kf_engine *e = kf_engine_of(eng);
    if (!e) return MEDIA_E_ARGUMENT;
    MediaError found = fresh();
    int code = kf_engine_run(e, inputs, outputs, &found);
    e->last = found;
    return code;
}

void media_engine_destroy(MediaEngine *eng) {
    struct kf_engine *e = kf_engine_of(eng);
    if (e) kf_engine_close(e);
}

int media_engine_last_error(const MediaEngine *eng, MediaError *error) {
    const struct kf_engine *e = kf_engine_of(eng);
    if (!e || !error) return MEDIA_E_ARGUMENT;
    if (!fits(&error->size, sizeof *error)) return MEDIA_E_VERSION;
    give_error(error, &e->last);
    return MEDIA_OK;
}

int media_engine_info(const MediaEngine *eng, MediaEngineInfo *info) {
    const struct kf_engine *e = kf_engine_of(eng);
    if (!e || !info) return MEDIA_E_ARGUMENT;
    if (!fits(&info->size, sizeof *info)) return MEDIA_E_VERSION;
    const struct kf_table *t = e->plan->table;
    memcpy(info->target, e->choice.target, sizeof info->target);
    info->abi_version = t->abi_version;
    info->ir_version = t->ir_version;
    info->inputs = e->plan->n_inputs;
    info->outputs = e->plan->n_outputs;
    info->operations = t->n_ops;
    info->functions = t->n_functions;
    info->arena_bytes = t->arena_bytes;
    info->weights_bytes = t->weights_bytes;
    info->scratch_bytes = t->scratch_bytes;
    info->kernel_bytes = e->choice.kernels.size;
    return MEDIA_OK;
}

int media_engine_describe(const MediaEngine *eng, uint32_t direction, uint32_t index, MediaTensorInfo *info) {
    const struct kf_engine *e = kf_engine_of(eng);
    if (!e || !info) return MEDIA_E_ARGUMENT;
    if (!fits(&info->size, sizeof *info)) return MEDIA_E_VERSION;
    const struct kf_tensor *n = kf_plan_tensor(e->plan, direction, index);
    if (!n) return MEDIA_E_ARGUMENT;
    size_t length = n->name_length < sizeof info->name ? n->name_length : sizeof info->name - 1;
    memset(info->name, 0, sizeof info->name);
    memcpy(info->name, e->plan->strings + n->name_offset, length);
    info->dtype = n->dtype;
    info->rank = n->rank;
    memcpy(info->dims, n->dims, sizeof info->dims);
    info->bytes = n->bytes;
    return MEDIA_OK;
}
