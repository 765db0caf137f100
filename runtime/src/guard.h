#ifndef KF_GUARD_H
#define KF_GUARD_H

#include <stdint.h>

void kf_guard_begin(void); /* not on x86-64 */

#endif
