/* cpu.h by CPUID and XGETBV: Intel SDM volume 1, 13.3 and 14.3.  A feature counts when the system saves its state. */
#include "cpu.h"

#include <cpuid.h>
#include <stddef.h>

#define KF_STATE_NONE 0u
#define KF_STATE_YMM 0x06u /* XMM and the upper halves of YMM */
#define KF_STATE_ZMM 0xe6u /* also opmask, upper halves of ZMM0-15, ZMM16-31 */
#define OSXSAVE (1u << 27)

struct feature {
    const char name[12];
    uint8_t word, bit, state, unused;
};

enum { leaf1_ecx, leaf7_ebx, extended1_ecx };

static const struct feature features[] = {
#define KF_FEATURE(number, name, word, bit, state) [number] = {name, word, bit, state, 0},
#include "cpu_x86_64.def"
#undef KF_FEATURE
};

enum { COUNT = sizeof features / sizeof features[0] };

uint32_t kf_cpu_machine(void) { return 62; /* EM_X86_64 */ }
uint32_t kf_cpu_relative(void) { return 8; /* R_X86_64_RELATIVE */ }

int kf_cpu_landing_pad(const uint8_t *code) { /* endbr64 */
    return code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa;
}

uint32_t kf_cpu_guarded_pages(void) { return 0; } /* the kernel offers user programs no such bit */

struct kf_cpu_answers kf_cpu_ask(void) {
    struct kf_cpu_answers answers = {0, 0, 0, 0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) answers.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) answers.leaf7_ebx = b;
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) answers.extended1_ecx = c;
    if (answers.leaf1_ecx & OSXSAVE) {
        __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        answers.xcr0 = (uint64_t)d << 32 | a;
    }
    return answers;
}

uint64_t kf_cpu_decode(const struct kf_cpu_answers *answers) {
    const uint32_t words[] = {answers->leaf1_ecx, answers->leaf7_ebx, answers->extended1_ecx};
    uint64_t found = 0;
    for (unsigned k = 0; k < COUNT; k++) {
        const struct feature *f = &features[k];
        int saved = (answers->xcr0 & f->state) == f->state;
        if (saved && (words[f->word] >> f->bit & 1)) found |= (uint64_t)1 << k;
    }
    return found;
}

uint64_t kf_cpu_features(void) {
    struct kf_cpu_answers answers = kf_cpu_ask();
    return kf_cpu_decode(&answers);
}

const char *kf_cpu_feature_name(unsigned bit) { return bit < COUNT ? features[bit].name : NULL; }

uint32_t kf_cpu_float_begin(void) {
    uint32_t mode, wanted = 0x1f80;
    __asm__ volatile("stmxcsr %0\n\tldmxcsr %1" : "=m"(mode) : "m"(wanted) : "memory");
    return mode;
}

void kf_cpu_float_end(uint32_t mode) { __asm__ volatile("ldmxcsr %0" : : "m"(mode) : "memory"); }

void kf_cpu_pause(void) { __asm__ volatile("pause" : : : "memory"); }
