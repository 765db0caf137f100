/* The stack protector's canary on machines where it is a variable and not a field of the thread (x86-64: start code).
 * Every function with a canary compares it with itself, so it is set once, before any of them runs: by the constructor
 * when the library is loaded, by the start code in a program.  It lies in what is read-only after relocation, which is
 * opened for it: nothing of the library stays writable. */
#include "guard.h"

#if !defined(__x86_64__)
#include "elf.h"
#include "os.h"

extern const kf_ehdr __ehdr_start __attribute__((visibility("hidden")));
extern uintptr_t __stack_chk_guard;
__attribute__((section(".data.rel.ro"))) uintptr_t __stack_chk_guard = 0;

/* Where the loader put it: an old one aligns to its own pages, not to KF_PAGE. */
static int protect(int access) {
    const uint8_t *base = (const uint8_t *)&__ehdr_start;
    const kf_phdr *h = (const void *)(base + __ehdr_start.e_phoff);
    for (unsigned k = 0; k < __ehdr_start.e_phnum; k++)
        if (h[k].p_type == PT_GNU_RELRO)
            return kf_os_protect((void *)((uintptr_t)base + h[k].p_vaddr), h[k].p_memsz, access);
    return -1;
}

__attribute__((constructor, no_stack_protector, used)) void kf_guard_begin(void) {
    uintptr_t value, at = (uintptr_t)&__stack_chk_guard;
    if (protect(KF_READ | KF_WRITE)) return; /* a canary of zero still is one */
    if (kf_os_random(&value, sizeof value) < 0) value = (uintptr_t)&value; /* at least where the stack lies */
    *(volatile uintptr_t *)at = value & ~(uintptr_t)255;                   /* a zero byte stops string overruns */
    protect(KF_READ);
}
#endif
