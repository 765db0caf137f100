/* cpu.h on RISC-V: the vector extension by riscv_hwprobe, where the kernel has it.  Kernels without that call never
 * switch the extension on, but emulators did: there an instruction of it is tried out, in a process of its own. */
#include "cpu.h"

#include <asm/unistd.h>
#include <stddef.h>

#include "os.h"
#include "syscall.h"

#define KF_NR_HWPROBE 258 /* __NR_riscv_hwprobe */
#define KEY_IMA_EXT_0 4
#define EXT_V (1ull << 2)
#define LEAST_BYTES 16u /* what targets plan with */

uint32_t kf_cpu_machine(void) { return 243; /* EM_RISCV */ }
uint32_t kf_cpu_relative(void) { return 3; /* R_RISCV_RELATIVE */ }

int kf_cpu_landing_pad(const uint8_t *code) {
    (void)code;
    return 1;
}

uint32_t kf_cpu_guarded_pages(void) { return 0; }

/* Bytes of a vector register; dies by SIGILL where there is none.  vsetivli zero, 4, e32, m1, ta, ma is an instruction
 * of version 1.0 only; then csrr vlenb. */
static unsigned vector_bytes(void) {
    unsigned long bytes;
    __asm__ volatile(".option push\n\t.option arch, +v\n\t"
                     "vsetivli zero, 4, e32, m1, ta, ma\n\tcsrr %0, vlenb\n\t.option pop"
                     : "=r"(bytes)
                     :
                     : "vl", "vtype");
    return bytes < 255 ? (unsigned)bytes : 255u;
}

static unsigned try_vector_bytes(void) {
    int child = kf_os_fork();
    if (child == 0) kf_os_exit((int)vector_bytes());
    int status = child < 0 ? -1 : kf_os_wait(child);
    return status < 0 || status & 127 ? 0 : (unsigned)status >> 8 & 255;
}

struct kf_cpu_answers kf_cpu_ask(void) {
    struct {
        int64_t key;
        uint64_t value;
    } pair = {KEY_IMA_EXT_0, 0};
    struct kf_cpu_answers answers = {0, 0, 0};
    answers.hwprobe = kf_syscall6(KF_NR_HWPROBE, (long)&pair, 1, 0, 0, 0, 0);
    if (answers.hwprobe == 0 && pair.key == KEY_IMA_EXT_0) answers.extensions = pair.value;
    if (answers.hwprobe < 0 || answers.extensions & EXT_V) answers.vector_bytes = try_vector_bytes();
    return answers;
}

uint64_t kf_cpu_decode(const struct kf_cpu_answers *answers) {
    if (answers->hwprobe >= 0 && !(answers->extensions & EXT_V)) return 0;
    return answers->vector_bytes >= LEAST_BYTES;
}

uint64_t kf_cpu_features(void) {
    struct kf_cpu_answers answers = kf_cpu_ask();
    return kf_cpu_decode(&answers);
}

const char *kf_cpu_feature_name(unsigned bit) { return bit == 0 ? "v" : NULL; }

uint32_t kf_cpu_float_begin(void) {
    uint64_t mode;
    __asm__ volatile("csrrw %0, fcsr, zero" : "=r"(mode) : : "memory");
    return (uint32_t)mode;
}

void kf_cpu_float_end(uint32_t mode) { __asm__ volatile("csrw fcsr, %0" : : "r"((uint64_t)mode) : "memory"); }

/* The instruction pause: where Zihintpause is missing, it does nothing. */
void kf_cpu_pause(void) { __asm__ volatile(".insn i 0x0f, 0, x0, x0, 16" : : : "memory"); }
