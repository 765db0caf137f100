/* probe [--run] FOLDER...: opens each bundle, asks it everything, with --run also runs it; one code per line.
 * Built with address checks for the tests that feed hostile bundles. */
#include "media_engine.h"
#include "memory.h"
#include "os.h"
#include "program.h"
#include "text.h"

static int run(MediaEngine *engine) {
    MediaTensor in = MEDIA_TENSOR_INIT, out = MEDIA_TENSOR_INIT;
    MediaTensorInfo info = MEDIA_TENSOR_INFO_INIT;
    media_engine_describe(engine, MEDIA_INPUT, 0, &info);
    in.bytes = info.bytes;
    in.data = kf_os_allocate(in.bytes);
    media_engine_describe(engine, MEDIA_OUTPUT, 0, &info);
    out.bytes = info.bytes;
    out.data = kf_os_allocate(out.bytes);
    int code = in.data && out.data ? media_engine_infer(engine, &in, &out) : MEDIA_E_NO_MEMORY;
    if (in.data) kf_os_release(in.data, (size_t)in.bytes);
    if (out.data) kf_os_release(out.data, (size_t)out.bytes);
    return code;
}

static int probe(const char *folder, int running) {
    MediaEngine *engine = 0;
    MediaError error = MEDIA_ERROR_INIT;
    int code = media_engine_open(folder, 0, &engine, &error);
    if (code) return code;
    MediaEngineInfo info = MEDIA_ENGINE_INFO_INIT;
    code = media_engine_info(engine, &info);
    for (uint32_t d = MEDIA_INPUT; d <= MEDIA_OUTPUT; d++) {
        MediaTensorInfo tensor = MEDIA_TENSOR_INFO_INIT;
        for (uint32_t k = 0; media_engine_describe(engine, d, k, &tensor) == MEDIA_OK; k++) continue;
    }
    if (!code && running) code = run(engine);
    media_engine_destroy(engine);
    return code;
}

int program_main(int argc, char **argv) {
    int running = argc > 1 && kf_same(argv[1], "--run");
    for (int k = 1 + running; k < argc; k++) {
        struct text t = {.fd = 1};
        text_number(&t, (uint64_t)probe(argv[k], running));
        text_line(&t);
    }
    return 0;
}
