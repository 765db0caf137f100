/* Entry on Hexagon. */
#include "guard.h"
#include "start.h"

__asm__(".text\n"
        ".p2align 4\n"
        ".globl _start\n"
        ".hidden _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  { r0 = r29; r30 = #0 }\n"
        "  { r31 = #0; r29 = and(r29,#-8) }\n"
        "  { call kf_start }\n"
        "  { r0 = #127; r6 = #94 }\n" /* exit_group */
        "  { trap0(#1) }\n"
        ".size _start, . - _start\n");

__attribute__((no_stack_protector)) int kf_start_guard(const uint64_t *random) {
    (void)random;
    kf_guard_begin();
    return 0;
}
