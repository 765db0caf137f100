/* bad_call MODE: a call through kf_call that must (or, for "good", must not) die before the callee starts. */
#include "call.h"
#include "memory.h"
#include "os.h"
#include "program.h"

static void say(const char *text) { kf_os_write(1, text, kf_length(text)); }

static void good(void *ctx, int64_t begin, int64_t end) {
    (void)ctx, (void)begin, (void)end;
    say("ran\n");
}
static void other_type(void *ctx) {
    (void)ctx;
    say("ran\n");
}
static int64_t returns(void *ctx, int64_t begin, int64_t end) {
    (void)ctx;
    say("ran\n");
    return begin + end;
}
static void small_integers(void *ctx, int32_t begin, int32_t end) {
    (void)ctx, (void)begin, (void)end;
    say("ran\n");
}

static const uint32_t data[16] = {1};

/* Keeps the compiler from seeing which function is called. */
static kf_tile *hide(uintptr_t at) {
    __asm__("" : "+r"(at));
    return (kf_tile *)at;
}

int program_main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    kf_tile *f = 0;
    uint32_t *page = kf_os_allocate(4096);
    if (!page) return 3;
    page[15] = kf_tile_type(); /* forged: the right id in memory that is not code */
    if (kf_same(mode, "good")) f = hide((uintptr_t)good);
    else if (kf_same(mode, "other-type")) f = hide((uintptr_t)other_type);
    else if (kf_same(mode, "returns")) f = hide((uintptr_t)returns);
    else if (kf_same(mode, "small-integers")) f = hide((uintptr_t)small_integers);
    else if (kf_same(mode, "middle")) f = hide((uintptr_t)good + 4);
    else if (kf_same(mode, "data")) f = hide((uintptr_t)&data[4]);
    else if (kf_same(mode, "forged")) f = hide((uintptr_t)&page[16]);
    else if (kf_same(mode, "null")) f = hide(0);
    else return 2;
    kf_call(f, 0, 0, 1);
    return 0;
}
