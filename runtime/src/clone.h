/* The system call that returns twice.  The new thread finds its argument on its own stack, calls kf_thread_begin
 * directly and never comes back.  The flags are those of pthread_create, the only ones that qemu's user mode takes. */
#ifndef KF_CLONE_H
#define KF_CLONE_H

#include <asm/unistd.h>
#include <linux/sched.h>

#define KF_CLONE_FLAGS                                                                                                 \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID)

/* A negative errno, or the number of the new thread; `alive` is cleared when it ends. */
#if defined(__x86_64__)

static inline long kf_clone(void **stack, void *alive, void *thread_block) {
    long r;
    register void *r10 __asm__("r10") = alive;
    register void *r8 __asm__("r8") = thread_block;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov (%%rsp), %%rdi\n\t"
                     "call kf_thread_begin\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(r)
                     : "a"((long)__NR_clone), "D"((long)(KF_CLONE_FLAGS | CLONE_SETTLS)), "S"(stack), "d"(0l),
                       "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return r;
}

#elif defined(__aarch64__) || defined(__arm__) || defined(__riscv) || defined(__hexagon__)

#if defined(__aarch64__)
#define KF_NUMBER "x8"
#define KF_ARGUMENT(k) "x" #k
#define KF_CLOBBERED "x30"
#define KF_CLONE_CODE                                                                                                  \
    "svc #0\n\tcbnz x0, 1f\n\tmov x29, #0\n\tldr x0, [sp]\n\tbl kf_thread_begin\n\tbrk #1\n1:"
#elif defined(__arm__)
#define KF_NUMBER "r7"
#define KF_ARGUMENT(k) "r" #k
#define KF_CLOBBERED "lr", "cc"
#define KF_CLONE_CODE "svc #0\n\tcmp r0, #0\n\tbne 1f\n\tldr r0, [sp]\n\tbl kf_thread_begin\n\tudf #0\n1:"
#elif defined(__riscv)
#define KF_NUMBER "a7"
#define KF_ARGUMENT(k) "a" #k
#define KF_CLOBBERED "ra"
#define KF_CLONE_CODE "ecall\n\tbnez a0, 1f\n\tld a0, 0(sp)\n\tcall kf_thread_begin\n\tebreak\n1:"
#else
#define KF_NUMBER "r6"
#define KF_ARGUMENT(k) "r" #k
#define KF_CLOBBERED "r31", "p0"
#define KF_CLONE_CODE                                                                                                  \
    "trap0(#1)\n\tp0 = cmp.eq(r0,#0)\n\tif (!p0) jump 1f\n\tr0 = memw(r29+#0)\n\tcall kf_thread_begin\n1:"
#endif

/* Machines differ in which of the last two arguments is `alive`; the other one counts only with CLONE_SETTLS. */
static inline long kf_clone(void **stack, void *alive) {
    register long number __asm__(KF_NUMBER) = __NR_clone;
    register long a0 __asm__(KF_ARGUMENT(0)) = KF_CLONE_FLAGS;
    register void *a1 __asm__(KF_ARGUMENT(1)) = stack;
    register long a2 __asm__(KF_ARGUMENT(2)) = 0;
    register void *a3 __asm__(KF_ARGUMENT(3)) = alive;
    register void *a4 __asm__(KF_ARGUMENT(4)) = alive;
    __asm__ volatile(KF_CLONE_CODE
                     : "+r"(a0)
                     : "r"(number), "r"(a1), "r"(a2), "r"(a3), "r"(a4)
                     : "memory", KF_CLOBBERED);
    return a0;
}

#undef KF_NUMBER
#undef KF_ARGUMENT
#undef KF_CLOBBERED
#undef KF_CLONE_CODE

#else
#error "no threads for this machine yet"
#endif

#endif
