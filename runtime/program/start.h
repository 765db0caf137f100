/* Between the entry of a static position-independent program without libc, start_<machine>.c, and the rest, start.c. */
#ifndef KF_START_H
#define KF_START_H

#include <stdint.h>

/* Called by _start with the stack as the kernel left it: argc, argv, environment, auxiliary vector. */
_Noreturn void kf_start(const unsigned long *stack);

/* Gives the stack protector its canary; random is 16 random bytes or null.  0, or negative where that failed. */
int kf_start_guard(const uint64_t *random);

#endif
