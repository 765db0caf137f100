/* The stack protector's canary on machines where it is a variable and not a field of the thread (x86-64: start code).
 * Every function with a canary compares it with itself, so it is set once, before any of them runs: by the constructor
 * when the library is loaded, by the start code in a program. */
#include "guard.h"

#if !defined(__x86_64__)
#include "os.h"

extern uintptr_t __stack_chk_guard;
uintptr_t __stack_chk_guard;

__attribute__((constructor, no_stack_protector, used)) void kf_guard_begin(void) {
    uintptr_t value;
    if (__stack_chk_guard) return;
    if (kf_os_random(&value, sizeof value) < 0) value = (uintptr_t)&value; /* at least where the stack lies */
    __stack_chk_guard = value & ~(uintptr_t)255;                           /* a zero byte stops string overruns */
}
#endif
