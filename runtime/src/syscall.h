/* Raw system calls: the result, or a negative errno. */
#ifndef KF_SYSCALL_H
#define KF_SYSCALL_H

#if defined(__x86_64__)
static inline long kf_syscall6(long n, long a, long b, long c, long d, long e, long f) {
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}
#else
#error "no system calls for this machine yet"
#endif

static inline long kf_syscall4(long n, long a, long b, long c, long d) { return kf_syscall6(n, a, b, c, d, 0, 0); }
static inline long kf_syscall3(long n, long a, long b, long c) { return kf_syscall6(n, a, b, c, 0, 0, 0); }
static inline long kf_syscall2(long n, long a, long b) { return kf_syscall6(n, a, b, 0, 0, 0, 0); }
static inline long kf_syscall1(long n, long a) { return kf_syscall6(n, a, 0, 0, 0, 0, 0); }

#endif
