/* Entry on 32-bit Arm. */
#include "guard.h"
#include "start.h"

__asm__(".text\n"
        ".arm\n"
        ".balign 4\n"
        ".globl _start\n"
        ".hidden _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "  mov fp, #0\n"
        "  mov lr, #0\n"
        "  mov r0, sp\n"
        "  bic sp, sp, #7\n"
        "  bl kf_start\n"
        "  udf #0\n"
        ".size _start, . - _start\n");

__attribute__((no_stack_protector)) int kf_start_guard(const uint64_t *random) {
    (void)random;
    kf_guard_begin();
    return 0;
}
