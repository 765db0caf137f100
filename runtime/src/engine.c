/* Opening and closing: choose, read, verify, map, admit - each step only on what the one before accepted. */
#include "engine.h"

#include "cpu.h"
#include "digest.h"
#include "error.h"
#include "memory.h"
#include "os.h"

static int check_config(const MediaConfig *config, MediaError *error) {
    if (!config) return MEDIA_OK;
    if (config->size < sizeof *config || config->version != MEDIA_API_VERSION)
        return kf_fail(error, MEDIA_E_VERSION, "MediaConfig of an unknown size or version");
    if (config->threads > MEDIA_MAX_THREADS || config->partitions > 4096)
        return kf_fail(error, MEDIA_E_ARGUMENT, "MediaConfig: a field out of range");
    return MEDIA_OK;
}

static int read_weights(struct kf_engine *e, int folder, MediaError *error) {
    const struct kf_blob *blob = &e->choice.weights;
    if (!blob->size) return MEDIA_OK;
    int code = kf_read_blob(folder, blob->sha256, blob->size, &e->weights, error);
    if (code) return code;
    int r = kf_os_protect(e->weights.at, e->weights.size, KF_READ);
    if (r < 0) return kf_fail_system(error, "protecting the weights", r);
    return kf_digest_is(e->weights.at, e->weights.size, blob->sha256) ? MEDIA_OK
                                                                      : kf_digest_mismatch(blob->sha256, error);
}

static int load_kernels(struct kf_engine *e, int folder, MediaError *error) {
    struct kf_bytes file;
    const struct kf_blob *blob = &e->choice.kernels;
    int code = kf_read_blob(folder, blob->sha256, blob->size, &file, error);
    if (code) return code;
    code = kf_image_load(&file, blob->sha256, &e->image, error);
    kf_release(&file);
    if (!code) code = kf_admit(&e->image, e->weights.size, &e->plan, error);
    return code;
}

static int allocate(struct kf_bytes *out, uint64_t bytes, MediaError *error) {
    if (!bytes) return MEDIA_OK;
    out->at = kf_os_allocate(bytes);
    if (!out->at) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for the arena");
    out->size = (size_t)bytes;
    return MEDIA_OK;
}

static int prepare(struct kf_engine *e, int folder, const MediaConfig *config, MediaError *error) {
    const struct kf_device device = {kf_cpu_machine(), kf_cpu_features()};
    int code = kf_bundle_choose(folder, config ? config->target : NULL, &device, &e->choice, error);
    if (!code) code = read_weights(e, folder, error);
    if (!code) code = load_kernels(e, folder, error);
    if (!code &&
        (e->plan->table->abi_version != e->choice.abi_version || e->plan->table->ir_version != e->choice.ir_version))
        code = kf_fail(error, MEDIA_E_TABLE, "entry table: other versions than its payload header");
    if (!code) code = allocate(&e->arena, e->plan->table->arena_bytes, error);
    if (!code) code = allocate(&e->scratch, e->plan->table->scratch_bytes, error);
    if (!code) code = allocate(&e->operands, e->plan->most_operands * sizeof(void *), error);
    if (!code && e->threads > 1) code = kf_pool_open(e->threads, e->plan->table->scratch_bytes, &e->pool, error);
    return code;
}

int kf_engine_open(const char *path, const MediaConfig *config, struct kf_engine **engine, MediaError *error) {
    int code = check_config(config, error);
    if (code) return code;
    if (!path) return kf_fail(error, MEDIA_E_ARGUMENT, "no path");
    if (!kf_digest_works()) return kf_fail(error, MEDIA_E_SELF_TEST, "SHA-256 gives a wrong answer on this machine");
    struct kf_engine *e = kf_os_allocate(sizeof *e);
    if (!e) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for an engine");
    e->threads = config && config->threads ? config->threads : 1;
    e->partitions = config && config->partitions ? config->partitions : 1;
    int folder = kf_os_open_folder(path);
    if (folder < 0) {
        code = folder == -KF_ENOENT ? kf_fail_about(error, MEDIA_E_NOT_FOUND, path, "no such folder")
                                    : kf_fail_system(error, path, folder);
    } else {
        code = prepare(e, folder, config, error);
        kf_os_close(folder);
    }
    if (code) {
        kf_engine_close(e);
        return code;
    }
    e->handle.handle = e;
    *engine = e;
    return MEDIA_OK;
}

void kf_engine_close(struct kf_engine *e) {
    kf_pool_close(e->pool); /* first: threads may use the rest */
    kf_plan_release(e->plan);
    kf_image_unload(&e->image);
    kf_release(&e->weights);
    kf_release(&e->arena);
    kf_release(&e->scratch);
    kf_release(&e->operands);
    kf_os_release(e, sizeof *e);
}

struct kf_engine *kf_engine_of(const MediaEngine *handle) {
    return handle && handle->handle == handle ? handle->handle : NULL;
}
