/* Entry on 64-bit Arm. */
#include "guard.h"
#include "start.h"

__asm__(".text\n"
        ".globl _start\n"
        ".hidden _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "  bti c\n"
        "  mov x29, #0\n"
        "  mov x30, #0\n"
        "  mov x0, sp\n"
        "  and sp, x0, #-16\n"
        "  bl kf_start\n"
        "  brk #1\n"
        ".size _start, . - _start\n");

__attribute__((no_stack_protector)) int kf_start_guard(const uint64_t *random) {
    (void)random;
    kf_guard_begin();
    return 0;
}
