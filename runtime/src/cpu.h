/* What the processor can do and the operating system saves. */
#ifndef KF_CPU_H
#define KF_CPU_H

#include <stdint.h>

/* Registers of the questions that decide; a pure function of them makes the answer testable. */
struct kf_cpuid {
    uint32_t leaf1_ecx, leaf7_ebx, extended1_ecx;
    uint64_t xcr0; /* 0 where XGETBV does not exist */
};

uint32_t kf_cpu_machine(void);  /* ELF e_machine of this code */
uint32_t kf_cpu_relative(void); /* number of its RELATIVE relocation */
/* Whether code starts with what an indirect branch must land on; reads KF_LANDING_PAD_BYTES. */
#define KF_LANDING_PAD_BYTES 4u
int kf_cpu_landing_pad(const uint8_t *code);

struct kf_cpuid kf_cpu_ask(void);
uint64_t kf_cpu_decode(const struct kf_cpuid *answers);
uint64_t kf_cpu_features(void);

/* Rounding to nearest, no flushing of small numbers, no traps: what kernels need, whatever the caller has set. */
uint32_t kf_cpu_float_begin(void); /* returns the caller's mode */
void kf_cpu_float_end(uint32_t mode);

const char *kf_cpu_feature_name(unsigned bit); /* null past the last */

#endif
