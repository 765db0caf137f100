/* Entry on x86-64; the canary lives at %fs:0x28. */
#include <asm/prctl.h>
#include <asm/unistd.h>

#include "os.h"
#include "start.h"
#include "syscall.h"
#include "thread.h"

__asm__(".text\n"
        ".globl _start\n"
        ".hidden _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  endbr64\n"
        "  xor %ebp, %ebp\n"
        "  mov %rsp, %rdi\n"
        "  and $-16, %rsp\n"
        "  call kf_start\n"
        "  ud2\n"
        ".size _start, . - _start\n");

__attribute__((no_stack_protector)) int kf_start_guard(const uint64_t *random) {
    struct kf_thread_block *block = kf_os_allocate(sizeof *block);
    if (!block) return -1;
    block->canary = random ? *random & ~(uint64_t)255 : 0; /* a zero byte stops string overruns */
    block->self = block;
    return (int)kf_syscall2(__NR_arch_prctl, ARCH_SET_FS, (long)block);
}
