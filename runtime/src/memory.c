/* The functions that a compiler may call without being asked, and the end of a smashed stack. */
#include "memory.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    char *t = to;
    const char *f = from;
    while (n--) *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    char *t = to;
    const char *f = from;
    if ((uintptr_t)t - (uintptr_t)f >= n) return memcpy(to, from, n);
    while (n--) t[n] = f[n];
    return to;
}

void *memset(void *to, int value, size_t n) {
    char *t = to;
    while (n--) *t++ = (char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    for (; n; n--, x++, y++)
        if (*x != *y) return *x < *y ? -1 : 1;
    return 0;
}

size_t kf_length(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

int kf_same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void) { __builtin_trap(); }
