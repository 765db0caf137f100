/* planted MODE: a deliberate memory fault, so that a test can see the address checks catch it ("clean" has none). */
#include "memory.h"
#include "os.h"
#include "program.h"

int program_main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    volatile char local[9] = {0};
    volatile int at = 8; /* the compiler must not see the fault */
    volatile char *heap = kf_os_allocate(8);
    if (!heap) return 3;
    if (kf_same(mode, "heap")) at = heap[at];
    else if (kf_same(mode, "before")) at = heap[at - 9];
    else if (kf_same(mode, "stack")) at = local[at + 1];
    else if (kf_same(mode, "copy")) memcpy((void *)(uintptr_t)heap, (const void *)(uintptr_t)local, (size_t)at + 1);
    else if (kf_same(mode, "released")) {
        kf_os_release((void *)(uintptr_t)heap, 8);
        at = heap[0];
    } else if (!kf_same(mode, "clean")) return 2;
    return 0;
}
