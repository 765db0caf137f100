/* Checks of small functions that no bundle reaches; prints the text of each check that fails. */
#include "bytes.h"
#include "cpu.h"
#include "digest.h"
#include "error.h"
#include "memory.h"
#include "os.h"
#include "program.h"
#include "text.h"

static int failures;

static void check(int holds, const char *text) {
    struct text t = {.fd = 1};
    if (holds) return;
    failures++;
    text_add(&t, text);
    text_line(&t);
}
#define CHECK(holds) check((holds) != 0, #holds)

static void cpu_state_the_system_does_not_save_does_not_count(void) {
    const uint32_t avx = 1u << 28, fma = 1u << 12, avx2 = 1u << 5, avx512f = 1u << 16, sse3 = 1u;
    struct kf_cpuid a = {.leaf1_ecx = avx | fma | sse3, .leaf7_ebx = avx2 | avx512f, .xcr0 = 0};
    CHECK(kf_cpu_decode(&a) == 1u); /* only sse3 */
    a.xcr0 = 0x2;
    CHECK(kf_cpu_decode(&a) == 1u); /* XMM alone */
    a.xcr0 = 0x6;
    CHECK(kf_cpu_decode(&a) == (1u | 1u << 7 | 1u << 8 | 1u << 9)); /* fma avx avx2 */
    a.xcr0 = 0x66;
    CHECK(!(kf_cpu_decode(&a) >> 13 & 1)); /* part of the ZMM state is not enough */
    a.xcr0 = 0xe6;
    CHECK(kf_cpu_decode(&a) >> 13 & 1);
}

static void names_of_features(void) {
    CHECK(kf_same(kf_cpu_feature_name(0), "sse3") && kf_same(kf_cpu_feature_name(17), "avx512vl"));
    CHECK(!kf_cpu_feature_name(18) && !kf_cpu_feature_name(63));
}

static void ranges_never_overflow(void) {
    CHECK(kf_within(0, 8, 8) && kf_within(8, 0, 8) && !kf_within(1, 8, 8) && !kf_within(9, 0, 8));
    CHECK(!kf_within(UINT64_MAX, 2, 8) && !kf_within(2, UINT64_MAX, 8) &&
          !kf_within(UINT64_MAX, UINT64_MAX, UINT64_MAX - 1));
}

static void digests(void) {
    static const uint8_t of_nothing[32] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                                           0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                                           0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
    char path[KF_BLOB_PATH_BYTES];
    CHECK(kf_digest_works());
    CHECK(kf_digest_is("", 0, of_nothing) && !kf_digest_is("x", 1, of_nothing));
    kf_blob_path(path, of_nothing);
    CHECK(kf_same(path, "blobs/sha256/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
}

static void messages_end_where_they_must(void) {
    MediaError e = MEDIA_ERROR_INIT;
    kf_fail(&e, MEDIA_E_SIZE, "a");
    for (int k = 0; k < 400; k++) kf_add_number(&e, 1234567890123456789u);
    CHECK(kf_length(e.message) == sizeof e.message - 1);
    kf_fail_about(&e, MEDIA_E_SIZE, "f", "g");
    CHECK(kf_same(e.message, "f: g"));
    char name[401];
    for (int k = 0; k < 400; k++) name[k] = k % 2 ? '\xa9' : '\xc3'; /* 200 times U+00E9 */
    name[400] = 0;
    kf_fail_about(&e, MEDIA_E_NOT_FOUND, name, "no such folder");
    size_t n = kf_length(e.message);
    CHECK(n == 3 + 150 + 16 && kf_same(e.message + n - 16, ": no such folder") && e.message[3] == '\xc3');
    kf_fail_about(&e, MEDIA_E_NOT_FOUND, name + 1, "x"); /* the cut would fall inside a character */
    CHECK(kf_length(e.message) == 3 + 150 + 3);
    name[399] = 0;
    kf_fail_system(&e, name, -36);
    n = kf_length(e.message);
    CHECK(n == 3 + 149 + 10 && kf_same(e.message + n - 10, ": errno 36") && e.message[3] == '\xc3');
}

static void numbers(void) {
    uint64_t v = 0;
    CHECK(text_parse("12", &v) && v == 12);
    CHECK(!text_parse("", &v) && !text_parse("-1", &v) && !text_parse("1x", &v) &&
          !text_parse("9999999999999999999", &v));
}

static void memory_functions(void) {
    char a[8] = "abcdefg", b[8] = "abcdefg";
    memmove(a + 1, a, 6);
    CHECK(kf_same(a, "aabcdef"));
    memmove(b, b + 1, 6);
    CHECK(kf_same(b, "bcdefgg"));
    CHECK(memcmp("a", "b", 1) < 0 && memcmp("b", "a", 1) > 0 && memcmp("ax", "ay", 1) == 0);
}

static void sealed_memory_cannot_change(void) {
    int fd = kf_os_memory_file("test");
    CHECK(fd >= 0 && kf_os_write(fd, "x", 1) == 0 && kf_os_seal(fd) == 0);
    CHECK(kf_os_write(fd, "y", 1) < 0);
    kf_os_close(fd);
}

static void float_mode_is_restored(void) {
    uint32_t callers = 0x9fc0, now = 0; /* flush to zero, denormals are zero */
    kf_cpu_float_end(callers);
    uint32_t kept = kf_cpu_float_begin();
    __asm__ volatile("stmxcsr %0" : "=m"(now));
    CHECK(kept == callers && now == 0x1f80);
    kf_cpu_float_end(kept);
    __asm__ volatile("stmxcsr %0" : "=m"(now));
    CHECK(now == callers);
}

int program_main(int argc, char **argv) {
    (void)argc, (void)argv;
    cpu_state_the_system_does_not_save_does_not_count();
    names_of_features();
    ranges_never_overflow();
    digests();
    messages_end_where_they_must();
    numbers();
    memory_functions();
    sealed_memory_cannot_change();
    float_mode_is_restored();
    return failures != 0;
}
