/* The only calls through a pointer in the runtime. */
#ifndef KF_CALL_H
#define KF_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "kf_abi.h"

/* Compiled with KCFI: traps unless the id of kf_tile stands before the function. */
void kf_call(kf_tile *function, void *ctx, int64_t begin, int64_t end);

/* The id that must stand before a tile, computed so that it is no immediate operand of the code. */
uint32_t kf_tile_type(void);

#endif
