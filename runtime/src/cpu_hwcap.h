/* cpu.h where the kernel lists the processor's features in the auxiliary vector: included by cpu_<machine>.c, which
 * defines KF_FEATURES, the name of its list. */
#include "cpu.h"

#include <linux/auxvec.h>
#include <stddef.h>

#include "os.h"

struct feature {
    const char name[12];
    uint8_t word, bit, unused[2];
};

enum { hwcap, hwcap2 };

static const struct feature features[] = {
#define KF_FEATURE(number, name, word, bit) [number] = {name, word, bit, {0, 0}},
#include KF_FEATURES
#undef KF_FEATURE
};

enum { COUNT = sizeof features / sizeof features[0] };

struct kf_cpu_answers kf_cpu_ask(void) {
    struct kf_cpu_answers answers = {kf_os_auxv(AT_HWCAP), kf_os_auxv(AT_HWCAP2)};
    return answers;
}

uint64_t kf_cpu_decode(const struct kf_cpu_answers *answers) {
    const unsigned long words[] = {answers->hwcap, answers->hwcap2};
    uint64_t found = 0;
    for (unsigned k = 0; k < COUNT; k++)
        if (words[features[k].word] >> features[k].bit & 1) found |= (uint64_t)1 << k;
    return found;
}

uint64_t kf_cpu_features(void) {
    struct kf_cpu_answers answers = kf_cpu_ask();
    return kf_cpu_decode(&answers);
}

const char *kf_cpu_feature_name(unsigned bit) { return bit < COUNT ? features[bit].name : NULL; }
