/* Start of a program: relocates itself, seals its data, gives the stack protector its canary, and calls program_main. */
#include "start.h"

#include <linux/auxvec.h>

#include "cpu.h"
#include "elf.h"
#include "os.h"
#include "program.h"

extern const kf_ehdr __ehdr_start __attribute__((visibility("hidden")));
extern const kf_dyn _DYNAMIC[] __attribute__((visibility("hidden")));

static void relocate(uintptr_t base) {
    uintptr_t at = 0, bytes = 0;
    for (const kf_dyn *d = _DYNAMIC; d->d_tag; d++) {
        if (d->d_tag == (KF_RELA ? DT_RELA : DT_REL)) at = base + d->d_un.d_ptr;
        if (d->d_tag == (KF_RELA ? DT_RELASZ : DT_RELSZ)) bytes = d->d_un.d_val;
    }
    for (const kf_relocation *r = (const void *)at; bytes >= sizeof *r; r++, bytes -= sizeof *r) {
        uintptr_t *place = (uintptr_t *)(base + r->r_offset); /* no other kinds exist: a test reads the file */
#if KF_RELA
        *place = base + (uintptr_t)r->r_addend;
#else
        *place += base;
#endif
    }
}

static int seal(uintptr_t base) {
    const kf_phdr *h = (const void *)(base + __ehdr_start.e_phoff);
    for (unsigned k = 0; k < __ehdr_start.e_phnum; k++)
        if (h[k].p_type == PT_GNU_RELRO && kf_os_protect((void *)(base + h[k].p_vaddr), h[k].p_memsz, KF_READ))
            return -1;
    return 0;
}

/* Runs before the canary exists, so it must not use it. */
__attribute__((no_stack_protector, used)) _Noreturn void kf_start(const unsigned long *stack) {
    uintptr_t base = (uintptr_t)&__ehdr_start;
    int argc = (int)stack[0];
    char **argv = (char **)(uintptr_t)(stack + 1);
    const unsigned long *aux = stack + argc + 2;
    relocate(base);
    while (*aux++) continue; /* the environment */
#if !defined(__x86_64__)
    kf_os_set_auxv(aux);
#endif
    while (*aux != AT_RANDOM && *aux != AT_NULL) aux += 2;
    if (kf_start_guard(*aux == AT_NULL ? 0 : (const uint64_t *)aux[1]) || seal(base)) kf_os_exit(127);
    kf_os_exit(program_main(argc, argv));
}
