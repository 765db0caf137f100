/* bad_object FILE MODE: maps a kernel object but admits nothing, and calls into it: the check in kf_call alone must stop
 * what the list of admitted functions would have. */
#include "call.h"
#include "digest.h"
#include "image.h"
#include "memory.h"
#include "os.h"
#include "program.h"

static uintptr_t function(const struct kf_image *image, uint32_t k) {
    const uint8_t *table = (const uint8_t *)image->table;
    return (uintptr_t)((const struct kf_function *)(table + image->table->off_functions))[k].u.fn;
}

#if defined(__aarch64__)
/* A call that nothing in the program checks: only the processor may, where the pages of the code ask for it. */
static void unchecked(uintptr_t function, void *ctx) {
    register uintptr_t x0 __asm__("x0") = (uintptr_t)ctx;
    register uintptr_t x1 __asm__("x1") = 3;
    register uintptr_t x2 __asm__("x2") = 10;
    __asm__ volatile("blr %3"
                     : "+r"(x0), "+r"(x1), "+r"(x2)
                     : "r"(function)
                     : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                       "x30", "memory");
}
#endif

int program_main(int argc, char **argv) {
    MediaError error = MEDIA_ERROR_INIT;
    struct kf_bytes file;
    struct kf_image image;
    uint8_t digest[32];
    static int64_t answer; /* what a callee leaves */
    if (argc != 3 || kf_read_file(-1, argv[1], 1 << 20, &file, &error)) return 2;
    kf_sha256(file.at, file.size, digest);
    if (kf_image_load(&file, digest, &image, &error)) {
        kf_os_write(2, error.message, kf_length(error.message));
        return 3;
    }
    const char *mode = argv[2];
    uintptr_t at = 0;
    if (kf_same(mode, "good")) at = function(&image, 0);
    else if (kf_same(mode, "other-type")) at = function(&image, 1);
    else if (kf_same(mode, "returns")) at = function(&image, 2);
    else if (kf_same(mode, "middle")) at = function(&image, 0) + 4;
    else if (kf_same(mode, "table")) at = (uintptr_t)image.table + 8;
#if defined(__aarch64__)
    else if (kf_same(mode, "unchecked")) unchecked(function(&image, 0), &answer);
    else if (kf_same(mode, "unchecked-middle")) unchecked(function(&image, 0) + 4, &answer);
#endif
    else return 2;
    if (at) kf_call((kf_tile *)at, &answer, 3, 10);
    if (answer) kf_os_write(1, "ran\n", 4);
    return answer == 7 ? 0 : 1;
}
