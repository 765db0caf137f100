/* thread_call MODE: a thread calls through kf_call.  The runtime starts no threads, but programs that use it do. */
#include <asm/unistd.h>

#include "call.h"
#include "memory.h"
#include "os.h"
#include "program.h"
#include "syscall.h"

#define FLAGS 0x50f00 /* CLONE_VM FS FILES SIGHAND THREAD SYSVSEM */
#define STACK 65536u

static volatile int64_t answer, done;

static void tile(void *ctx, int64_t begin, int64_t end) { *(volatile int64_t *)ctx = end - begin; }
static void other_type(void *ctx) { *(volatile int64_t *)ctx = -1; }

void thread_body(uintptr_t function);
__attribute__((used)) void thread_body(uintptr_t function) {
    kf_call((kf_tile *)function, (void *)(uintptr_t)&answer, 3, 10);
    done = 1;
    for (;;) kf_syscall1(__NR_exit, 0);
}

/* The system call returns twice; the new thread finds its argument on its own stack and never comes back. */
static long start(uintptr_t *stack) {
#if defined(__x86_64__)
    long r;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tpop %%rdi\n\tcall thread_body\n1:"
                     : "=a"(r)
                     : "a"((long)__NR_clone), "D"((long)FLAGS), "S"(stack)
                     : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long r __asm__("x0") = FLAGS;
    register uintptr_t *s __asm__("x1") = stack;
    register long n __asm__("x8") = __NR_clone;
    __asm__ volatile("svc #0\n\tcbnz x0, 1f\n\tldr x0, [sp], #16\n\tbl thread_body\n1:"
                     : "+r"(r)
                     : "r"(s), "r"(n)
                     : "memory", "x30");
    return r;
#elif defined(__arm__)
    register long r __asm__("r0") = FLAGS;
    register uintptr_t *s __asm__("r1") = stack;
    register long n __asm__("r7") = __NR_clone;
    __asm__ volatile("svc #0\n\tcmp r0, #0\n\tbne 1f\n\tpop {r0, r1}\n\tbl thread_body\n1:"
                     : "+r"(r)
                     : "r"(s), "r"(n)
                     : "memory", "lr", "cc");
    return r;
#elif defined(__riscv)
    register long r __asm__("a0") = FLAGS;
    register uintptr_t *s __asm__("a1") = stack;
    register long n __asm__("a7") = __NR_clone;
    __asm__ volatile("ecall\n\tbnez a0, 1f\n\tld a0, 0(sp)\n\tcall thread_body\n1:"
                     : "+r"(r)
                     : "r"(s), "r"(n)
                     : "memory", "ra");
    return r;
#else
    register long r __asm__("r0") = FLAGS;
    register uintptr_t *s __asm__("r1") = stack;
    register long n __asm__("r6") = __NR_clone;
    __asm__ volatile("trap0(#1)\n\tp0 = cmp.eq(r0,#0)\n\tif (!p0) jump 1f\n\tr0 = memw(r29+#0)\n\tcall thread_body\n1:"
                     : "+r"(r)
                     : "r"(s), "r"(n)
                     : "memory", "r31", "p0");
    return r;
#endif
}

int program_main(int argc, char **argv) {
    uint8_t *stack = kf_os_allocate(STACK);
    if (argc != 2 || !stack) return 2;
    uintptr_t *top = (uintptr_t *)(stack + STACK - 64);
    *top = kf_same(argv[1], "good") ? (uintptr_t)tile : (uintptr_t)other_type;
    if (start(top) < 0) return 3;
    for (int k = 0; k < 10000000 && !done; k++) kf_syscall1(__NR_sched_yield, 0);
    if (answer) kf_os_write(1, "ran\n", 4);
    return done && answer == 7 ? 0 : 1;
}
