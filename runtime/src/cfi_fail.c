#include "call.h"
#include "os.h"

_Noreturn void kf_cfi_fail(void) {
    static const char text[] = "cfi_fail: a call through a pointer of another type was stopped\n";
    kf_os_write(2, text, sizeof text - 1);
    kf_os_exit(KF_CFI_FAIL_STATUS);
}
