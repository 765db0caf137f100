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

#elif defined(__aarch64__) || defined(__arm__) || defined(__riscv) || defined(__hexagon__)

#if defined(__aarch64__)
#define KF_CALL "svc #0"
#define KF_NUMBER "x8"
#define KF_ARGUMENT(k) "x" #k
#elif defined(__arm__)
#define KF_CALL "svc #0"
#define KF_NUMBER "r7"
#define KF_ARGUMENT(k) "r" #k
#elif defined(__riscv)
#define KF_CALL "ecall"
#define KF_NUMBER "a7"
#define KF_ARGUMENT(k) "a" #k
#else
#define KF_CALL "trap0(#1)"
#define KF_NUMBER "r6"
#define KF_ARGUMENT(k) "r" #k
#endif

static inline long kf_syscall6(long n, long a, long b, long c, long d, long e, long f) {
    register long number __asm__(KF_NUMBER) = n;
    register long a0 __asm__(KF_ARGUMENT(0)) = a;
    register long a1 __asm__(KF_ARGUMENT(1)) = b;
    register long a2 __asm__(KF_ARGUMENT(2)) = c;
    register long a3 __asm__(KF_ARGUMENT(3)) = d;
    register long a4 __asm__(KF_ARGUMENT(4)) = e;
    register long a5 __asm__(KF_ARGUMENT(5)) = f;
    __asm__ volatile(KF_CALL : "+r"(a0) : "r"(number), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}

#undef KF_CALL
#undef KF_NUMBER
#undef KF_ARGUMENT

#else
#error "no system calls for this machine yet"
#endif

static inline long kf_syscall4(long n, long a, long b, long c, long d) { return kf_syscall6(n, a, b, c, d, 0, 0); }
static inline long kf_syscall3(long n, long a, long b, long c) { return kf_syscall6(n, a, b, c, 0, 0, 0); }
static inline long kf_syscall2(long n, long a, long b) { return kf_syscall6(n, a, b, 0, 0, 0, 0); }
static inline long kf_syscall1(long n, long a) { return kf_syscall6(n, a, 0, 0, 0, 0, 0); }

#endif
