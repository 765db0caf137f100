/* cpu.h on Hexagon: nothing tells a program the processor's version, so an instruction of it is tried out, in a process
 * of its own. */
#include "cpu.h"

#include <stddef.h>

#include "os.h"

#define USR_ROUNDING 0x00c00000u /* bits 22 and 23; 0 = to nearest */
#define USR_TRAPS 0x3e000000u    /* bits 25 to 29: traps of floating point */

uint32_t kf_cpu_machine(void) { return 164; /* EM_QDSP6 */ }
uint32_t kf_cpu_relative(void) { return 35; /* R_HEX_RELATIVE */ }

int kf_cpu_landing_pad(const uint8_t *code) {
    (void)code;
    return 1;
}

uint32_t kf_cpu_guarded_pages(void) { return 0; }

struct kf_cpu_answers kf_cpu_ask(void) {
    struct kf_cpu_answers answers = {0};
    int child = kf_os_fork();
    if (child == 0) {
        uint64_t value = 0;
        __asm__ volatile("%0 = dfmax(%0,%0)" : "+r"(value)); /* since v67 */
        kf_os_exit(0);
    }
    answers.v67 = child > 0 && kf_os_wait(child) == 0;
    return answers;
}

uint64_t kf_cpu_decode(const struct kf_cpu_answers *answers) { return answers->v67 != 0; }

uint64_t kf_cpu_features(void) {
    struct kf_cpu_answers answers = kf_cpu_ask();
    return kf_cpu_decode(&answers);
}

const char *kf_cpu_feature_name(unsigned bit) { return bit == 0 ? "v67" : NULL; }

uint32_t kf_cpu_float_begin(void) {
    uint32_t mode;
    __asm__ volatile("%0 = usr" : "=r"(mode));
    uint32_t wanted = mode & ~(USR_ROUNDING | USR_TRAPS);
    __asm__ volatile("usr = %0" : : "r"(wanted) : "memory");
    return mode;
}

void kf_cpu_float_end(uint32_t mode) { __asm__ volatile("usr = %0" : : "r"(mode) : "memory"); }

void kf_cpu_pause(void) { __asm__ volatile("" : : : "memory"); }
