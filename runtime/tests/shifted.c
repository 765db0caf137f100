/* shifted FOLDER IN OUT PARTITIONS THREADS: an inference on memory as awkward as the interface allows.
 * Each tensor starts four bytes past a multiple of 64, between guards.  A first inference on NaN fills the arena with
 * them, then IN is read: all inputs one behind another; OUT gets all outputs in the same way.  Exit status 0; 1: a code
 * of the runtime on standard error; 2: files; 3: a guard was written. */
#include "bytes.h"
#include "media_engine.h"
#include "memory.h"
#include "os.h"
#include "program.h"
#include "text.h"

#define MOST 256u
#define GUARD 192u
#define SHIFT 4u
#define GUARD_BYTE 0xa5

static MediaTensor tensors[2][MOST];
static uint32_t counts[2];

static int failed(int code, const char *what) {
    struct text t = {.fd = 2};
    text_add(&t, what);
    text_add(&t, ": ");
    text_add(&t, media_code_name(code));
    text_line(&t);
    return 1;
}

static uint8_t *room(const MediaTensor *t) { return (uint8_t *)t->data - GUARD - SHIFT; }

static int place(MediaEngine *engine, uint32_t direction, uint32_t k) {
    MediaTensor *t = &tensors[direction][k];
    MediaTensorInfo info = MEDIA_TENSOR_INFO_INIT;
    int code = media_engine_describe(engine, direction, k, &info);
    if (code) return code;
    uint8_t *at = kf_os_allocate(info.bytes + 2 * GUARD);
    if (!at) return MEDIA_E_NO_MEMORY;
    memset(at, GUARD_BYTE, (size_t)info.bytes + 2 * GUARD);
    t->size = sizeof *t;
    t->version = 1;
    t->data = at + GUARD + SHIFT;
    t->bytes = info.bytes;
    memset(t->data, 0xff, (size_t)info.bytes);
    return MEDIA_OK;
}

static int place_all(MediaEngine *engine) {
    MediaEngineInfo info = MEDIA_ENGINE_INFO_INIT;
    int code = media_engine_info(engine, &info);
    if (code || info.inputs > MOST || info.outputs > MOST) return code ? code : MEDIA_E_ARGUMENT;
    counts[MEDIA_INPUT] = info.inputs;
    counts[MEDIA_OUTPUT] = info.outputs;
    for (uint32_t d = MEDIA_INPUT; d <= MEDIA_OUTPUT; d++)
        for (uint32_t k = 0; k < counts[d]; k++)
            if ((code = place(engine, d, k)) != MEDIA_OK) return code;
    return MEDIA_OK;
}

static int fill(const char *path) {
    struct kf_bytes file = {0, 0};
    MediaError error = MEDIA_ERROR_INIT;
    size_t used = 0;
    if (kf_read_file(-1, path, 1u << 30, &file, &error)) return 0;
    for (uint32_t k = 0; k < counts[MEDIA_INPUT]; k++) {
        const MediaTensor *t = &tensors[MEDIA_INPUT][k];
        if (!kf_within(used, t->bytes, file.size)) return 0;
        memcpy(t->data, (const uint8_t *)file.at + used, (size_t)t->bytes);
        used += (size_t)t->bytes;
    }
    return used == file.size;
}

static int keep(const char *path) {
    int fd = kf_os_create(path), good = fd >= 0;
    for (uint32_t k = 0; good && k < counts[MEDIA_OUTPUT]; k++)
        good = kf_os_write(fd, tensors[MEDIA_OUTPUT][k].data, (size_t)tensors[MEDIA_OUTPUT][k].bytes) == 0;
    return good && kf_os_close(fd) == 0;
}

static int intact(const MediaTensor *t) {
    const uint8_t *at = room(t);
    size_t end = (size_t)t->bytes + 2 * GUARD;
    for (size_t k = 0; k < end; k++) {
        int inside = k >= GUARD + SHIFT && k < GUARD + SHIFT + t->bytes;
        if (!inside && at[k] != GUARD_BYTE) return 0;
    }
    return 1;
}

int program_main(int argc, char **argv) {
    MediaEngine *engine = 0;
    MediaConfig config = MEDIA_CONFIG_INIT;
    MediaError error = MEDIA_ERROR_INIT;
    uint64_t partitions, threads;
    if (argc != 6 || !text_parse(argv[4], &partitions) || !text_parse(argv[5], &threads)) return 2;
    config.partitions = (uint32_t)partitions;
    config.threads = (uint32_t)threads;
    int code = media_engine_open(argv[1], &config, &engine, &error);
    if (code) return failed(code, error.message);
    code = place_all(engine);
    if (!code) code = media_engine_infer(engine, tensors[MEDIA_INPUT], tensors[MEDIA_OUTPUT]);
    if (code) return failed(code, "first inference");
    if (!fill(argv[2])) return 2;
    code = media_engine_infer(engine, tensors[MEDIA_INPUT], tensors[MEDIA_OUTPUT]);
    if (code) return failed(code, "second inference");
    if (!keep(argv[3])) return 2;
    for (uint32_t d = MEDIA_INPUT; d <= MEDIA_OUTPUT; d++)
        for (uint32_t k = 0; k < counts[d]; k++)
            if (!intact(&tensors[d][k])) return 3;
    media_engine_destroy(engine);
    return 0;
}
