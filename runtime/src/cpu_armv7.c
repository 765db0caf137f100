/* cpu.h on 32-bit Arm: features by the kernel's hwcaps (its asm/hwcap.h). */
#define KF_FEATURES "cpu_armv7.def"
#include "cpu_hwcap.h"

uint32_t kf_cpu_machine(void) { return 40; /* EM_ARM */ }
uint32_t kf_cpu_relative(void) { return 23; /* R_ARM_RELATIVE */ }

int kf_cpu_landing_pad(const uint8_t *code) {
    (void)code;
    return 1;
}

uint32_t kf_cpu_guarded_pages(void) { return 0; }

uint32_t kf_cpu_float_begin(void) { /* NEON flushes small numbers to zero whatever stands here */
    uint32_t mode, wanted = 0;
    __asm__ volatile("vmrs %0, fpscr\n\tvmsr fpscr, %1" : "=&r"(mode) : "r"(wanted) : "memory");
    return mode;
}

void kf_cpu_float_end(uint32_t mode) { __asm__ volatile("vmsr fpscr, %0" : : "r"(mode) : "memory"); }

void kf_cpu_pause(void) { __asm__ volatile("yield" : : : "memory"); }
