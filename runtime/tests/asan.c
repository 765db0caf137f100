/* The few functions that clang's address checks call: zig's clang has the checks but no library for them, and the
 * runtime has no libc.  Shadow memory as in the compiler's default for x86-64: one byte for eight, at 0x7fff8000.
 * A fault traps. */
#include <linux/mman.h>
#include <stddef.h>
#include <stdint.h>

#include "os.h"
#include "program.h"
#include "syscall.h"

#include <asm/unistd.h>

#define SHADOW 0x7fff8000ul
#define SHADOW_END 0x10007fff8000ul
#define REDZONE 4096u

int program_main_checked(int argc, char **argv);
static _Noreturn void fault(void) {
    static const char text[] = "address check failed\n";
    kf_os_write(2, text, sizeof text - 1);
    __builtin_trap();
}

int program_main(int argc, char **argv) {
    long r = kf_syscall6(__NR_mmap, (long)SHADOW, (long)(SHADOW_END - SHADOW), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (r != (long)SHADOW) kf_os_exit(126);
    return program_main_checked(argc, argv);
}

static void mark(uintptr_t from, size_t bytes, uint8_t value) { /* from is a multiple of 8 */
    uint8_t *shadow = (uint8_t *)((from >> 3) + SHADOW);
    for (size_t k = 0; k < (bytes + 7) / 8; k++) shadow[k] = value;
}

/* Allocations of the runtime under test: kf_os_allocate is renamed to these by the build. */
void *kf_checked_allocate(size_t bytes);
void kf_checked_release(void *at, size_t bytes);

static size_t whole(size_t bytes) { return (bytes + 4095) & ~(size_t)4095; }

void *
kf_checked_allocate(size_t bytes) { /* pages of their own, the rest of the last one and a page on each side poisoned */
    if (bytes > SIZE_MAX / 4) return NULL;
    size_t body = whole(bytes);
    uint8_t *at = kf_os_allocate(body + 2 * REDZONE);
    if (!at) return at;
    uintptr_t user = (uintptr_t)at + REDZONE;
    mark((uintptr_t)at, REDZONE, 0xfa);
    mark(user, bytes, 0);
    uint8_t *last = (uint8_t *)(((user + bytes) >> 3) + SHADOW);
    if (bytes % 8) *last = (uint8_t)(bytes % 8);
    mark((user + bytes + 7) & ~(uintptr_t)7, body - ((bytes + 7) & ~(size_t)7) + REDZONE, 0xfa);
    return (void *)user;
}

void kf_checked_release(void *at, size_t bytes) {
    uint8_t *start = (uint8_t *)at - REDZONE;
    mark((uintptr_t)start, whole(bytes) + 2 * REDZONE, 0xfd);
    kf_os_protect(start, whole(bytes) + 2 * REDZONE, 0); /* the address is never used again: a late use faults */
}

#define REPORT(size)                                                                                                   \
    void __asan_report_load##size(uintptr_t at);                                                                       \
    void __asan_report_load##size(uintptr_t at) {                                                                      \
        (void)at;                                                                                                      \
        fault();                                                                                                       \
    }                                                                                                                  \
    void __asan_report_store##size(uintptr_t at);                                                                      \
    void __asan_report_store##size(uintptr_t at) {                                                                     \
        (void)at;                                                                                                      \
        fault();                                                                                                       \
    }
REPORT(1)
REPORT(2)
REPORT(4)
REPORT(8)
REPORT(16)

void __asan_report_load_n(uintptr_t at, size_t bytes);
void __asan_report_load_n(uintptr_t at, size_t bytes) { (void)at, (void)bytes, fault(); }
void __asan_report_store_n(uintptr_t at, size_t bytes);
void __asan_report_store_n(uintptr_t at, size_t bytes) { (void)at, (void)bytes, fault(); }

static void check(uintptr_t at, size_t bytes) {
    for (uintptr_t k = at; k < at + bytes; k++) {
        int8_t shadow = *(int8_t *)((k >> 3) + SHADOW);
        if (shadow && (int8_t)(k & 7) >= shadow) fault();
    }
}

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);

void *__asan_memcpy(void *to, const void *from, size_t n);
void *__asan_memcpy(void *to, const void *from, size_t n) {
    check((uintptr_t)from, n);
    check((uintptr_t)to, n);
    return memcpy(to, from, n);
}
void *__asan_memmove(void *to, const void *from, size_t n);
void *__asan_memmove(void *to, const void *from, size_t n) {
    check((uintptr_t)from, n);
    check((uintptr_t)to, n);
    return memmove(to, from, n);
}
void *__asan_memset(void *to, int value, size_t n);
void *__asan_memset(void *to, int value, size_t n) {
    check((uintptr_t)to, n);
    return memset(to, value, n);
}

int memcmp(const void *a, const void *b, size_t n);
int kf_checked_memcmp(const void *a, const void *b, size_t n);
int kf_checked_memcmp(const void *a, const void *b, size_t n) {
    check((uintptr_t)a, n);
    check((uintptr_t)b, n);
    return memcmp(a, b, n);
}

#define SET_SHADOW(value)                                                                                              \
    void __asan_set_shadow_##value(uintptr_t at, size_t bytes);                                                        \
    void __asan_set_shadow_##value(uintptr_t at, size_t bytes) {                                                       \
        for (size_t k = 0; k < bytes; k++) ((uint8_t *)at)[k] = 0x##value;                                             \
    }
SET_SHADOW(00)
SET_SHADOW(f1)
SET_SHADOW(f2)
SET_SHADOW(f3)
SET_SHADOW(f5)
SET_SHADOW(f8)

void __asan_handle_no_return(void);
void __asan_handle_no_return(void) {}
void __asan_init(void);
void __asan_init(void) {}
void __asan_version_mismatch_check_v8(void);
void __asan_version_mismatch_check_v8(void) {}
