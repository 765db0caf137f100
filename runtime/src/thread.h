/* Threads without a C library.  Each runs kf_thread_main on a stack of its own above a page without access, with all
 * signals blocked: a host's handlers never run there, and a fault ends the process as in a host without handlers. */
#ifndef KF_THREAD_H
#define KF_THREAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct kf_thread {
    uint8_t *stack;          /* with its guard; null: never started */
    _Atomic uint32_t alive;  /* cleared by the system, which then wakes who waits for it */
};

#if defined(__x86_64__)
/* What %fs points to: the stack protector reads its canary there. */
struct kf_thread_block {
    struct kf_thread_block *self; /* the ABI wants its own address at %fs:0 */
    uint64_t unused[4];
    uint64_t canary; /* %fs:0x28 */
};
#endif

/* Starts a thread; a negative errno where the system refuses one, and then nothing is left of it. */
int kf_thread_start(struct kf_thread *thread, void *argument);
void kf_thread_join(struct kf_thread *thread);    /* returns when it has ended, and gives its stack back */
void kf_thread_release(struct kf_thread *thread); /* gives back the stack of one that has ended or never was */

/* What a thread does; defined by whoever starts threads.  Called directly: no address of code is handed on. */
void kf_thread_main(void *argument);

/* Sleeps if and while the word has this value; may also return for no reason. */
void kf_thread_sleep(_Atomic uint32_t *word, uint32_t value);
void kf_thread_wake(_Atomic uint32_t *word, uint32_t most);

#endif
