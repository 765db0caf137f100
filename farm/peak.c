/* How fast this core can multiply and add: the ceiling that no honest figure of `farm bench` can exceed.
 *
 * Independent accumulators hide the latency of FMA (4 to 5 cycles, up to 2 per cycle); they and two constants fit the
 * registers of the target.  Every value stays in (0, 1]: x * 0.5 + 0.5 tends to 1.  The caller counts
 * 2 * KF_LANES * KF_CHAINS floating-point operations per iteration; `sink` keeps the compiler from dropping the work. */
#include <stdint.h>

#if defined(__AVX512F__)
#define KF_LANES 16
#define KF_CHAINS 24
#elif defined(__AVX__)
#define KF_LANES 8
#define KF_CHAINS 12
#else
#define KF_LANES 4
#define KF_CHAINS 12
#endif

typedef float kf_vector __attribute__((vector_size(KF_LANES * 4)));

#pragma clang fp contract(fast)

int64_t kf_peak(int64_t iterations, float *sink);

/* Returns the floating-point operations of one iteration. */
__attribute__((visibility("default"), no_stack_protector)) int64_t kf_peak(int64_t iterations, float *sink) {
    kf_vector sums[KF_CHAINS];
    const kf_vector half = (kf_vector){0} + 0.5f;
    for (int i = 0; i < KF_CHAINS; i++) sums[i] = half * (float)(1 + i) / KF_CHAINS;
    for (int64_t n = 0; n < iterations; n++) {
#pragma clang loop unroll(full)
        for (int i = 0; i < KF_CHAINS; i++) sums[i] = sums[i] * half + half;
    }
    kf_vector total = sums[0];
    for (int i = 1; i < KF_CHAINS; i++) total += sums[i];
    for (int i = 0; i < KF_LANES; i++) sink[i] = total[i];
    return (int64_t)2 * KF_LANES * KF_CHAINS;
}
