/* Kernel Farm device runtime: load a signed-off kernel bundle, run it, let it go.
 *
 *     MediaConfig config = MEDIA_CONFIG_INIT;
 *     MediaEngine *engine = media_engine_create("bundle", &config);
 *     MediaTensor in = MEDIA_TENSOR_INIT, out = MEDIA_TENSOR_INIT;
 *     in.data = pixels;  in.bytes = sizeof pixels;
 *     out.data = scores; out.bytes = sizeof scores;
 *     int code = media_engine_infer(engine, &in, &out);
 *     media_engine_destroy(engine);
 *
 * The three functions are the fixed interface; everything below them is an extension, present from API version 1 on.
 * Every struct that a caller fills begins with its size and version, so that it can grow.  No function crashes on a
 * null or inconsistent argument: it returns a code.  An engine serves one call at a time; engines are independent.
 *
 * With MediaConfig.threads above 1, at most MEDIA_MAX_THREADS, an engine has threads of its own from its creation to
 * its destruction.  They inherit the creator's processors and priority; all signals are blocked in them.  After fork()
 * they exist in the parent only: in the child the engine works on the caller's thread alone and can be destroyed. */
#ifndef MEDIA_ENGINE_H
#define MEDIA_ENGINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MEDIA_API __attribute__((visibility("default")))
#else
#define MEDIA_API
#endif

#define MEDIA_API_VERSION 1u
#define MEDIA_MAX_RANK 8
#define MEDIA_MAX_THREADS 64u

enum {
    MEDIA_OK = 0,
    MEDIA_E_ARGUMENT = 1,        /* a null or inconsistent argument */
    MEDIA_E_VERSION = 2,         /* a struct of a size or version that this runtime does not know */
    MEDIA_E_NO_MEMORY = 3,
    MEDIA_E_SYSTEM = 4,          /* a system call failed */
    MEDIA_E_NOT_FOUND = 5,       /* the folder or a file of it is missing */
    MEDIA_E_NOT_A_FILE = 6,      /* a device, folder or pipe where a file is expected */
    MEDIA_E_INDEX = 7,           /* media.idx is malformed */
    MEDIA_E_HEADER = 8,          /* a payload header is malformed */
    MEDIA_E_SIZE = 9,            /* a blob has another size than recorded */
    MEDIA_E_DIGEST = 10,         /* a blob has other bytes than recorded */
    MEDIA_E_ABI = 11,            /* kernels for another device ABI */
    MEDIA_E_IR_VERSION = 12,     /* kernels of another major IR version */
    MEDIA_E_MACHINE = 13,        /* no payload for this kind of processor */
    MEDIA_E_CPU = 14,            /* the processor lacks required features */
    MEDIA_E_TARGET = 15,         /* no payload of the wanted target name */
    MEDIA_E_ELF = 16,            /* the kernel object is malformed */
    MEDIA_E_ELF_POLICY = 17,     /* the kernel object asks for something that is never granted */
    MEDIA_E_TABLE = 18,          /* the entry table is malformed */
    MEDIA_E_NOT_ADMITTED = 19,   /* a function of the table must not be called */
    MEDIA_E_TENSOR = 20,         /* a tensor does not fit its description */
    MEDIA_E_SELF_TEST = 21,      /* the cryptography gives a wrong answer on this machine */
    MEDIA_E_GOLDEN = 22          /* the golden vectors are missing or malformed, or not of these kernels */
};

enum { MEDIA_F32 = 1 };
enum { MEDIA_INPUT = 0, MEDIA_OUTPUT = 1 };

/* What went wrong last; filled where the caller offers one.  message is always terminated. */
typedef struct {
    uint32_t size, version;
    int32_t code;
    uint32_t reserved;
    char message[240];
} MediaError;

typedef struct {
    uint32_t size, version;
    const char *target;  /* name of a target, or null: the best one that this processor can run */
    MediaError *error;   /* or null; filled by media_engine_create when it returns null */
    uint32_t partitions; /* an operation is cut into so many ranges at least; 0 means 1; results never depend on it */
    uint32_t threads;    /* that share an operation, the caller's among them; 0 means 1; results never depend on it */
} MediaConfig;

/* One input or output; they are given in the order of media_engine_describe.  dtype 0 and rank 0 mean "as described",
 * other values must agree.  data must be aligned to the element type (4 bytes for f32) and bytes be exactly the
 * described number.  Outputs may overlap neither each other nor an input. */
typedef struct {
    uint32_t size, version;
    void *data;
    uint64_t bytes;
    uint32_t dtype, rank;
    int64_t dims[MEDIA_MAX_RANK];
} MediaTensor;

#define MEDIA_ERROR_INIT {sizeof(MediaError), 1u, 0, 0u, {0}}
#define MEDIA_CONFIG_INIT {sizeof(MediaConfig), 1u, 0, 0, 0u, 0u}
#define MEDIA_TENSOR_INIT {sizeof(MediaTensor), 1u, 0, 0u, 0u, 0u, {0, 0, 0, 0, 0, 0, 0, 0}}

/* ---- the interface ---- */

typedef struct { void* handle; } MediaEngine;

/* model_path is an OCI image layout folder with media.idx at its root.  config may be null.  Null on failure. */
MEDIA_API MediaEngine* media_engine_create(const char* model_path, const MediaConfig* config);

/* As many inputs and outputs as the model has, one array each.  On a code the outputs are untouched. */
MEDIA_API int media_engine_infer(MediaEngine* eng, const MediaTensor* inputs, MediaTensor* outputs);

/* Null is allowed. */
MEDIA_API void media_engine_destroy(MediaEngine* eng);

/* ---- extensions, since version 1 ---- */

typedef struct {
    uint32_t size, version;
    char name[128]; /* terminated, cut to fit */
    uint32_t dtype, rank;
    int64_t dims[MEDIA_MAX_RANK];
    uint64_t bytes;
} MediaTensorInfo;

typedef struct {
    uint32_t size, version;
    char target[32]; /* of the payload in use */
    uint32_t abi_version, ir_version;
    uint32_t inputs, outputs;
    uint32_t operations, functions;
    uint64_t arena_bytes, weights_bytes, scratch_bytes;
    uint64_t kernel_bytes; /* of the kernel object */
} MediaEngineInfo;

#define MEDIA_TENSOR_INFO_INIT {sizeof(MediaTensorInfo), 1u, {0}, 0u, 0u, {0, 0, 0, 0, 0, 0, 0, 0}, 0u}
#define MEDIA_ENGINE_INFO_INIT {sizeof(MediaEngineInfo), 1u, {0}, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u}

MEDIA_API uint32_t media_api_version(void);

/* A short fixed name of a code, such as "digest"; "unknown" for other numbers. */
MEDIA_API const char *media_code_name(int code);

/* media_engine_create that returns its code and also fills error (which may be null).  *engine is null on failure. */
MEDIA_API int media_engine_open(const char *model_path, const MediaConfig *config, MediaEngine **engine,
                                MediaError *error);

/* The last failure of media_engine_infer on this engine; code MEDIA_OK when its last call succeeded. */
MEDIA_API int media_engine_last_error(const MediaEngine *eng, MediaError *error);

MEDIA_API int media_engine_info(const MediaEngine *eng, MediaEngineInfo *info);

/* The index-th input or output; MEDIA_E_ARGUMENT past the last. */
MEDIA_API int media_engine_describe(const MediaEngine *eng, uint32_t direction, uint32_t index, MediaTensorInfo *info);

#ifdef __cplusplus
}
#endif

#endif
