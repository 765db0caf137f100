/* The only calls through a pointer in the runtime. */
#ifndef KF_CALL_H
#define KF_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "kf_abi.h"

/* Compiled with KCFI: traps unless the id of kf_tile stands before the function.  On machines where a program goes on
 * after that trap (Hexagon) the build puts a call of kf_cfi_fail in its place. */
void kf_call(kf_tile *function, void *ctx, int64_t begin, int64_t end);

/* The id that must stand before a tile, computed so that it is no immediate operand of the code. */
uint32_t kf_tile_type(void);

#define KF_CFI_FAIL_STATUS 86
_Noreturn void kf_cfi_fail(void); /* says so and ends the process with KF_CFI_FAIL_STATUS */

#endif
