/* What the processor can do and the operating system saves.  One file cpu_<machine>.c answers for each machine. */
#ifndef KF_CPU_H
#define KF_CPU_H

#include <stdint.h>

/* Answers of the processor or the system to the questions that decide; a pure function of them makes the result
 * testable. */
struct kf_cpu_answers {
#if defined(__x86_64__)
    uint32_t leaf1_ecx, leaf7_ebx, extended1_ecx; /* of CPUID */
    uint64_t xcr0;                                /* 0 where XGETBV does not exist */
#elif defined(__riscv)
    long hwprobe;          /* negative: the system does not know the call */
    uint64_t extensions;   /* of RISCV_HWPROBE_KEY_IMA_EXT_0 */
    unsigned vector_bytes; /* of a vector register, tried out; 0 = no vector instructions */
#elif defined(__hexagon__)
    int v67; /* an instruction of that version, tried out */
#else
    unsigned long hwcap, hwcap2; /* AT_HWCAP and AT_HWCAP2 */
#endif
};

uint32_t kf_cpu_machine(void);  /* ELF e_machine of this code */
uint32_t kf_cpu_relative(void); /* number of its RELATIVE relocation */
/* Whether code starts with what an indirect branch must land on; reads KF_LANDING_PAD_BYTES.  True on machines without
 * landing pads. */
#define KF_LANDING_PAD_BYTES 4u
int kf_cpu_landing_pad(const uint8_t *code);

/* Bits of mmap's protection that make the processor check the landing pads of code, or 0. */
uint32_t kf_cpu_guarded_pages(void);

struct kf_cpu_answers kf_cpu_ask(void);
uint64_t kf_cpu_decode(const struct kf_cpu_answers *answers); /* bits as in toolchains/features.py */
uint64_t kf_cpu_features(void);

/* Rounding to nearest, no flushing of small numbers, no traps: what kernels need, whatever the caller has set. */
uint32_t kf_cpu_float_begin(void); /* returns the caller's mode */
void kf_cpu_float_end(uint32_t mode);

/* In a loop that looks at what another thread will write. */
void kf_cpu_pause(void);

const char *kf_cpu_feature_name(unsigned bit); /* null past the last */

#endif
