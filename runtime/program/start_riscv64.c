/* Entry on RISC-V. */
#include "guard.h"
#include "start.h"

__asm__(".text\n"
        ".balign 4\n"
        ".globl _start\n"
        ".hidden _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  li fp, 0\n"
        "  li ra, 0\n"
        "  mv a0, sp\n"
        "  andi sp, sp, -16\n"
        "  call kf_start\n"
        "  ebreak\n"
        ".size _start, . - _start\n");

__attribute__((no_stack_protector)) int kf_start_guard(const uint64_t *random) {
    (void)random;
    kf_guard_begin();
    return 0;
}
