/* A user of the public header, in plain C99.  capi FOLDER: 0, or the line of the first check that failed. */
#include "media_engine.h"

int program_main(int argc, char **argv);

#define CHECK(holds)                                                                                                   \
    do {                                                                                                               \
        if (!(holds)) return __LINE__ & 255;                                                                           \
    } while (0)

static float input[1024], output[1024], other[1024];

static int nulls(MediaEngine *engine) {
    MediaTensor in = MEDIA_TENSOR_INIT, out = MEDIA_TENSOR_INIT;
    MediaConfig odd = MEDIA_CONFIG_INIT;
    MediaError error = MEDIA_ERROR_INIT;
    MediaEngineInfo info = MEDIA_ENGINE_INFO_INIT;
    MediaTensorInfo tensor = MEDIA_TENSOR_INFO_INIT;
    MediaEngine *none = engine, foreign;
    foreign.handle = 0;

    CHECK(media_engine_create(0, 0) == 0);
    CHECK(media_engine_open(0, 0, &none, &error) == MEDIA_E_ARGUMENT && none == 0 && error.code == MEDIA_E_ARGUMENT);
    CHECK(media_engine_open("nowhere", 0, 0, 0) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_open("nowhere/at/all", 0, &none, 0) == MEDIA_E_NOT_FOUND);
    odd.size = 4;
    CHECK(media_engine_open("nowhere", &odd, &none, 0) == MEDIA_E_VERSION);
    odd.size = sizeof odd;
    odd.version = 99;
    CHECK(media_engine_open("nowhere", &odd, &none, 0) == MEDIA_E_VERSION);
    media_engine_destroy(0);
    media_engine_destroy(&foreign);
    CHECK(media_engine_infer(0, &in, &out) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_infer(&foreign, &in, &out) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_infer(engine, 0, &out) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_last_error(engine, &error) == MEDIA_OK && error.code == MEDIA_E_ARGUMENT);
    in.data = input;
    in.bytes = sizeof input;
    CHECK(media_engine_infer(engine, &in, 0) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_ARGUMENT); /* no data */
    CHECK(media_engine_last_error(0, &error) == MEDIA_E_ARGUMENT &&
          media_engine_last_error(engine, 0) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_info(0, &info) == MEDIA_E_ARGUMENT && media_engine_info(engine, 0) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_describe(engine, MEDIA_INPUT, 0, 0) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_describe(engine, MEDIA_INPUT, 1, &tensor) == MEDIA_E_ARGUMENT);
    CHECK(media_engine_describe(engine, 7, 0, &tensor) == MEDIA_E_ARGUMENT);
    tensor.version = 2;
    CHECK(media_engine_describe(engine, MEDIA_INPUT, 0, &tensor) == MEDIA_E_VERSION);
    return 0;
}

static int wrong_tensors(MediaEngine *engine) {
    MediaTensor in = MEDIA_TENSOR_INIT, out = MEDIA_TENSOR_INIT;
    in.data = input;
    in.bytes = sizeof input;
    out.data = output;
    out.bytes = sizeof output - 4;
    output[0] = 7;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_TENSOR && output[0] == 7);
    out.bytes = sizeof output;
    in.rank = 2, in.dims[0] = 1024, in.dims[1] = 1;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_TENSOR);
    in.dims[0] = 1, in.dims[1] = 1024;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_OK);
    in.dtype = 9;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_TENSOR);
    in.dtype = MEDIA_F32;
    in.data = (char *)input + 1;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_TENSOR); /* misaligned */
    in.data = input;
    out.data = input + 512;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_TENSOR); /* overlap */
    out.data = output;
    in.size = 8;
    CHECK(media_engine_infer(engine, &in, &out) == MEDIA_E_VERSION);
    return 0;
}

/* A caller compiled against a later header, whose MediaTensor is larger. */
static int later_caller(MediaEngine *engine) {
    struct later {
        MediaTensor tensor;
        uint64_t more[4];
    } in = {MEDIA_TENSOR_INIT, {0, 0, 0, 0}}, out = {MEDIA_TENSOR_INIT, {0, 0, 0, 0}};
    in.tensor.size = out.tensor.size = sizeof in;
    in.tensor.data = input;
    in.tensor.bytes = sizeof input;
    out.tensor.data = output;
    out.tensor.bytes = sizeof output;
    CHECK(media_engine_infer(engine, &in.tensor, &out.tensor) == MEDIA_OK);
    return 0;
}

/* y = 2 (x + w) with w[k] = k / 4, in two engines that run one after the other and in turns. */
static int two_engines(const char *folder) {
    MediaConfig config = MEDIA_CONFIG_INIT;
    MediaTensor in = MEDIA_TENSOR_INIT, a = MEDIA_TENSOR_INIT, b = MEDIA_TENSOR_INIT;
    MediaEngine *first, *second;
    int k;
    config.partitions = 7;
    first = media_engine_create(folder, 0);
    second = media_engine_create(folder, &config);
    CHECK(first && second && first != second);
    in.data = input, a.data = output, b.data = other;
    in.bytes = sizeof input, a.bytes = sizeof output, b.bytes = sizeof other;
    for (k = 0; k < 1024; k++) input[k] = (float)k;
    CHECK(media_engine_infer(first, &in, &a) == MEDIA_OK);
    CHECK(media_engine_infer(second, &in, &b) == MEDIA_OK);
    for (k = 0; k < 1024; k++) CHECK(output[k] == 2.5f * (float)k && other[k] == output[k]);
    media_engine_destroy(first);
    CHECK(media_engine_infer(second, &in, &b) == MEDIA_OK && other[1023] == 2557.5f);
    media_engine_destroy(second);
    return 0;
}

int program_main(int argc, char **argv) {
    MediaConfig config = MEDIA_CONFIG_INIT;
    MediaError error = MEDIA_ERROR_INIT;
    MediaEngineInfo info = MEDIA_ENGINE_INFO_INIT;
    MediaTensorInfo tensor = MEDIA_TENSOR_INFO_INIT;
    MediaEngine *engine;
    int failed;
    CHECK(argc == 2 && media_api_version() == 1);
    config.error = &error;
    config.target = "no-such-target";
    CHECK(media_engine_create(argv[1], &config) == 0 && error.code == MEDIA_E_TARGET);
    config.target = 0;
    engine = media_engine_create(argv[1], &config);
    CHECK(engine);
    CHECK(media_engine_info(engine, &info) == MEDIA_OK && info.inputs == 1 && info.outputs == 1 &&
          info.operations == 2);
    CHECK(info.weights_bytes == 4096 && info.arena_bytes == 4096 && info.target[0] == 't');
    CHECK(media_engine_describe(engine, MEDIA_OUTPUT, 0, &tensor) == MEDIA_OK && tensor.name[0] == 'y' &&
          tensor.name[1] == 0);
    CHECK(tensor.rank == 2 && tensor.dims[0] == 1 && tensor.dims[1] == 1024 && tensor.bytes == 4096 &&
          tensor.dtype == MEDIA_F32);
    failed = nulls(engine);
    if (!failed) failed = wrong_tensors(engine);
    if (!failed) failed = later_caller(engine);
    media_engine_destroy(engine);
    return failed ? failed : two_engines(argv[1]);
}
