/* load LIBRARY BUNDLE: an ordinary program with a libc that opens the library at run time and runs the tiny model. */
#include <dlfcn.h>
#include <stdio.h>

#include "media_engine.h"

typedef int open_function(const char *, const MediaConfig *, MediaEngine **, MediaError *);
typedef int infer_function(MediaEngine *, const MediaTensor *, MediaTensor *);

static float input[1024], output[1024];

int main(int argc, char **argv) {
    MediaError error = MEDIA_ERROR_INIT;
    MediaTensor in = MEDIA_TENSOR_INIT, out = MEDIA_TENSOR_INIT;
    MediaEngine *engine = 0;
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : 0;
    if (!library) {
        puts(dlerror());
        return 2;
    }
    open_function *open = (open_function *)dlsym(library, "media_engine_open");
    infer_function *infer = (infer_function *)dlsym(library, "media_engine_infer");
    if (!open || !infer || open(argv[2], 0, &engine, &error)) {
        puts(error.message);
        return 3;
    }
    for (int k = 0; k < 1024; k++) input[k] = (float)k;
    in.data = input;
    in.bytes = sizeof input;
    out.data = output;
    out.bytes = sizeof output;
    if (infer(engine, &in, &out)) return 4;
    for (int k = 0; k < 1024; k++)
        if (output[k] != 2.5f * (float)k) return 5;
    puts("ran");
    return 0;
}
