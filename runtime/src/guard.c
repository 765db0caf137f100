/* The stack protector's canary on machines where it is a variable and not a field of the thread (x86-64: start code).
 * Every function with a canary compares it with itself, so it is set once, before any of them runs: by the constructor
 * when the library is loaded, by the start code in a program.  It lies in what is read-only after relocation, on pages
 * that hold nothing else (the linker pads them to KF_PAGE), and is read-only again afterwards. */
#include "guard.h"

#if !defined(__x86_64__)
#include "elf.h"
#include "os.h"

extern uintptr_t __stack_chk_guard;
__attribute__((section(".data.rel.ro"))) uintptr_t __stack_chk_guard = 0;

__attribute__((constructor, no_stack_protector, used)) void kf_guard_begin(void) {
    uintptr_t value, at = (uintptr_t)&__stack_chk_guard;
    void *page = (void *)(at - at % KF_PAGE);
    if (kf_os_protect(page, KF_PAGE, KF_READ | KF_WRITE)) return; /* a canary of zero still is one */
    if (kf_os_random(&value, sizeof value) < 0) value = (uintptr_t)&value; /* at least where the stack lies */
    *(volatile uintptr_t *)at = value & ~(uintptr_t)255;                   /* a zero byte stops string overruns */
    kf_os_protect(page, KF_PAGE, KF_READ);
}
#endif
