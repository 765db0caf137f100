/* golden FILE...: reads each file as golden vectors and touches all that it promises; one code per line.
 * Built with address checks for the tests that feed hostile files. */
#include "golden.h"
#include "os.h"
#include "program.h"
#include "text.h"

static int read(const char *path) {
    struct kf_bytes file;
    struct kf_golden_view golden;
    MediaError error = MEDIA_ERROR_INIT;
    int code = kf_read_file(-1, path, 1u << 20, &file, &error);
    if (code) return code;
    code = kf_golden_read(&file, &golden, &error);
    if (!code) {
        struct kf_golden_worst worst = {.error = -1.0f};
        const float *values = golden.values;
        volatile uint64_t seeds = 0;
        for (uint32_t k = 0; k < golden.head->n_cases * golden.head->n_inputs; k++) seeds += golden.seeds[k];
        for (uint32_t c = 0; c < golden.head->n_cases; c++)
            for (uint32_t k = 0; k < golden.head->n_outputs; k++) {
                uint64_t count = golden.outputs[k] / 4;
                kf_golden_compare(golden.head, values, values, count, c, &worst);
                values += count;
            }
        if (worst.failed || (const uint8_t *)values != (const uint8_t *)file.at + file.size) code = MEDIA_E_SELF_TEST;
    }
    kf_release(&file);
    return code;
}

int program_main(int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        struct text t = {.fd = 1};
        text_number(&t, (uint64_t)read(argv[k]));
        text_line(&t);
    }
    return 0;
}
