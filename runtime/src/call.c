#include "call.h"

uint32_t kf_tile_type(void) {
    uint32_t inverted = KF_TILE_TYPE_INVERTED;
    __asm__("" : "+r"(inverted));
    return ~inverted;
}

void kf_call(kf_tile *function, void *ctx, int64_t begin, int64_t end) {
    function(ctx, begin, end);
    __asm__ volatile("" ::: "memory"); /* no tail call: the check and the call stay in this frame */
}
