/* A library with functions that are reached only by their address, which nothing but code computes: `first`, and
 * `second`, whose address only `first` takes. KF_TEST_JUMP: `second` goes on through a pointer. KF_TEST_BARE: it has no
 * landing pad. */
#include <stdint.h>

#ifndef KF_TEST_BARE
#define PAD
#elif defined(__x86_64__)
#define PAD __attribute__((nocf_check))
#else
#define PAD __attribute__((target("branch-protection=none")))
#endif

typedef void step(void);
__attribute__((visibility("default"))) uintptr_t media_api_version(void);

static step *volatile next;
static volatile uintptr_t handed, count;

PAD static void second(void) {
    count++;
#ifdef KF_TEST_JUMP
    next();
    count++;
#else
    next = 0;
#endif
}

static void first(void) { handed = (uintptr_t)second; }

uintptr_t media_api_version(void) { return (uintptr_t)first; }
