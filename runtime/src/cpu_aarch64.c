/* cpu.h on 64-bit Arm: features by the kernel's hwcaps (Documentation/arch/arm64/elf_hwcaps.rst). */
#define KF_FEATURES "cpu_aarch64.def"
#include "cpu_hwcap.h"

#define PROT_BTI 0x10u
#define HWCAP2_BTI (1ul << 17)

uint32_t kf_cpu_machine(void) { return 183; /* EM_AARCH64 */ }
uint32_t kf_cpu_relative(void) { return 1027; /* R_AARCH64_RELATIVE */ }

int kf_cpu_landing_pad(const uint8_t *code) { /* bti c; paciasp, at which an indirect call may land too */
    return code[2] == 0x03 && code[3] == 0xd5 &&
           ((code[0] == 0x5f && code[1] == 0x24) || (code[0] == 0x3f && code[1] == 0x23));
}

uint32_t kf_cpu_guarded_pages(void) { return kf_os_auxv(AT_HWCAP2) & HWCAP2_BTI ? PROT_BTI : 0; }

uint32_t kf_cpu_float_begin(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr\n\tmsr fpcr, xzr" : "=r"(mode) : : "memory");
    return (uint32_t)mode;
}

void kf_cpu_float_end(uint32_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode) : "memory"); }

void kf_cpu_pause(void) { __asm__ volatile("isb" : : : "memory"); } /* yield takes no time */
