/* Entry of a static position-independent program without libc: relocates itself, seals its data, gives the stack
 * protector its canary (which lives at %fs:0x28), and calls program_main. */
#include <asm/prctl.h>
#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/mman.h>

#include "memory.h"
#include "os.h"
#include "program.h"
#include "syscall.h"

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

void kf_start(const long *stack);

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

struct thread_block {
    struct thread_block *self; /* the ABI wants its own address at %fs:0 */
    uint64_t unused[4];
    uint64_t canary; /* %fs:0x28 */
};

static void relocate(uintptr_t base) {
    uint64_t at = 0, bytes = 0;
    for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag; d++) {
        if (d->d_tag == DT_RELA) at = base + d->d_un.d_ptr;
        if (d->d_tag == DT_RELASZ) bytes = d->d_un.d_val;
    }
    for (const Elf64_Rela *r = (const void *)at; bytes >= sizeof *r; r++, bytes -= sizeof *r)
        *(uint64_t *)(base + r->r_offset) = base + (uint64_t)r->r_addend; /* no others exist: the gate reads the file */
}

static void seal(uintptr_t base) {
    const Elf64_Phdr *h = (const void *)(base + __ehdr_start.e_phoff);
    for (unsigned k = 0; k < __ehdr_start.e_phnum; k++)
        if (h[k].p_type == PT_GNU_RELRO && kf_os_protect((void *)(base + h[k].p_vaddr), h[k].p_memsz, KF_READ))
            kf_os_exit(127);
}

/* Runs before the canary exists, so it must not use it. */
__attribute__((no_stack_protector)) void kf_start(const long *stack) {
    uintptr_t base = (uintptr_t)&__ehdr_start;
    int argc = (int)stack[0];
    char **argv = (char **)(stack + 1);
    const unsigned long *aux = (const unsigned long *)(stack + argc + 2);
    relocate(base);
    struct thread_block *block = kf_os_allocate(sizeof *block);
    if (!block) kf_os_exit(127);
    while (*aux++) continue; /* the environment */
    for (; aux[0] != AT_NULL; aux += 2)
        if (aux[0] == AT_RANDOM)
            block->canary = *(const uint64_t *)aux[1] & ~(uint64_t)255; /* a zero byte stops string overruns */
    block->self = block;
    if (kf_syscall2(__NR_arch_prctl, ARCH_SET_FS, (long)block)) kf_os_exit(127);
    seal(base);
    kf_os_exit(program_main(argc, argv));
}
