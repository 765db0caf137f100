/* thread.h by Linux system calls. */
#include "thread.h"

#include <asm/unistd.h>
#include <linux/futex.h>

#include "clone.h"
#include "elf.h"
#include "os.h"
#include "syscall.h"

#define GUARD KF_PAGE
#define STACK (4u * KF_PAGE)
#define TOP 128u /* bytes at the upper end of the stack for what a new thread finds there */
#define SIG_SETMASK 2

static long start_on(uint8_t *top, _Atomic uint32_t *alive, void *argument) {
    void **first = (void **)(void *)top;
    *first = argument;
#if defined(__x86_64__)
    struct kf_thread_block *block = (void *)(top + TOP / 2);
    block->self = block;
    __asm__("mov %%fs:0x28, %0" : "=r"(block->canary));
    return kf_clone(first, alive, block);
#else
    return kf_clone(first, alive);
#endif
}

int kf_thread_start(struct kf_thread *thread, void *argument) {
    uint64_t all = UINT64_MAX, before = 0;
    uint8_t *stack = kf_os_reserve(GUARD + STACK);
    if (!stack) return -KF_ENOMEM;
    long r = kf_os_protect(stack + GUARD, STACK, KF_READ | KF_WRITE);
    if (r >= 0) {
        atomic_store(&thread->alive, 1);
        kf_syscall4(__NR_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all); /* a thread inherits it */
        r = start_on(stack + GUARD + STACK - TOP, &thread->alive, argument);
        kf_syscall4(__NR_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
    }
    if (r < 0) {
        kf_os_unmap(stack, GUARD + STACK);
        return (int)r;
    }
    thread->stack = stack;
    return 0;
}

void kf_thread_join(struct kf_thread *thread) {
    while (atomic_load(&thread->alive)) kf_thread_sleep(&thread->alive, 1);
    kf_thread_release(thread);
}

void kf_thread_release(struct kf_thread *thread) {
    kf_os_unmap(thread->stack, GUARD + STACK);
    thread->stack = NULL;
}

/* Not the private kind of futex: the system wakes those who wait for a thread's end by the other one. */
void kf_thread_sleep(_Atomic uint32_t *word, uint32_t value) {
    kf_syscall4(__NR_futex, (long)word, FUTEX_WAIT, (long)value, 0);
}

void kf_thread_wake(_Atomic uint32_t *word, uint32_t most) {
    kf_syscall3(__NR_futex, (long)word, FUTEX_WAKE, (long)most);
}

/* Where a new thread enters; it ends here, for nobody is there to return to. */
_Noreturn void kf_thread_begin(void *argument);
__attribute__((used)) _Noreturn void kf_thread_begin(void *argument) {
    kf_thread_main(argument);
    for (;;) kf_syscall1(__NR_exit, 0);
}
