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
    else return 2;
    kf_call((kf_tile *)at, &answer, 3, 10);
    if (answer) kf_os_write(1, "ran\n", 4);
    return answer == 7 ? 0 : 1;
}
