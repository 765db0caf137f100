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

#if defined(__x86_64__)
#define FLOAT_MODE 0x8040u /* flush to zero, denormals are zero */
static void cpu_state_the_system_does_not_save_does_not_count(void) {
    const uint32_t avx = 1u << 28, fma = 1u << 12, avx2 = 1u << 5, avx512f = 1u << 16, sse3 = 1u;
    struct kf_cpu_answers a = {.leaf1_ecx = avx | fma | sse3, .leaf7_ebx = avx2 | avx512f, .xcr0 = 0};
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
#elif defined(__aarch64__)
#define FLOAT_MODE 0x01400000u /* flush to zero, round up */
static void cpu_state_the_system_does_not_save_does_not_count(void) { /* the kernel lists none that it does not save */
    struct kf_cpu_answers a = {.hwcap = 1ul << 1 | 1ul << 20, .hwcap2 = 1ul << 17};
    CHECK(kf_cpu_decode(&a) == (1u << 1 | 1u << 12 | 1u << 14)); /* asimd asimddp bti */
}

static void names_of_features(void) {
    CHECK(kf_same(kf_cpu_feature_name(1), "asimd") && kf_same(kf_cpu_feature_name(16), "bf16"));
    CHECK(!kf_cpu_feature_name(17) && !kf_cpu_feature_name(63));
}
#elif defined(__arm__)
#define FLOAT_MODE 0x01400000u /* flush to zero, round up */
static void cpu_state_the_system_does_not_save_does_not_count(void) {
    struct kf_cpu_answers a = {.hwcap = 1ul << 12 | 1ul << 19, .hwcap2 = ~0ul};
    CHECK(kf_cpu_decode(&a) == (1u << 1 | 1u << 2)); /* neon vfpd32 */
}

static void names_of_features(void) {
    CHECK(kf_same(kf_cpu_feature_name(0), "vfpv3") && kf_same(kf_cpu_feature_name(4), "idiva"));
    CHECK(!kf_cpu_feature_name(5) && !kf_cpu_feature_name(63));
}
#elif defined(__riscv)
#define FLOAT_MODE 0x20u /* round towards zero */
static void cpu_state_the_system_does_not_save_does_not_count(void) {
    struct kf_cpu_answers a = {.hwprobe = 0, .extensions = 1u << 2, .vector_bytes = 16};
    CHECK(kf_cpu_decode(&a) == 1u);
    a.extensions = ~(uint64_t)(1u << 2); /* the kernel knows, and says no */
    CHECK(kf_cpu_decode(&a) == 0);
    a.hwprobe = -38; /* the kernel does not know */
    CHECK(kf_cpu_decode(&a) == 1u);
    a.vector_bytes = 8; /* registers of 64 bits are not enough */
    CHECK(kf_cpu_decode(&a) == 0);
}

static void names_of_features(void) { CHECK(kf_same(kf_cpu_feature_name(0), "v") && !kf_cpu_feature_name(1)); }
#else
#define FLOAT_MODE 0x00400000u /* round towards zero */
static void cpu_state_the_system_does_not_save_does_not_count(void) {
    struct kf_cpu_answers a = {.v67 = 1};
    CHECK(kf_cpu_decode(&a) == 1u);
    a.v67 = 0;
    CHECK(kf_cpu_decode(&a) == 0);
}

static void names_of_features(void) { CHECK(kf_same(kf_cpu_feature_name(0), "v67") && !kf_cpu_feature_name(1)); }
#endif

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

/* Known answers: FIPS 180-4's longer examples, and one digest over those of 257 messages of 0 to 256 bytes. */
static void digests_of_every_length(void) {
    static const uint8_t of_two_blocks[32] = {
        0x24, 0x8d, 0x6a, 0x61, 0xd2, 0x06, 0x38, 0xb8, 0xe5, 0xc0, 0x26, 0x93, 0x0c, 0x3e, 0x60, 0x39,
        0xa3, 0x3c, 0xe4, 0x59, 0x64, 0xff, 0x21, 0x67, 0xf6, 0xec, 0xed, 0xd4, 0x19, 0xdb, 0x06, 0xc1};
    static const uint8_t of_a_million[32] = {
        0xcd, 0xc7, 0x6e, 0x5c, 0x99, 0x14, 0xfb, 0x92, 0x81, 0xa1, 0xc7, 0xe2, 0x84, 0xd7, 0x3e, 0x67,
        0xf1, 0x80, 0x9a, 0x48, 0xa4, 0x97, 0x20, 0x0e, 0x04, 0x6d, 0x39, 0xcc, 0xc7, 0x11, 0x2c, 0xd0};
    static const uint8_t of_all[32] = {
        0xa2, 0xff, 0xce, 0x57, 0x11, 0xa9, 0xab, 0xde, 0x1c, 0x22, 0x9b, 0x9d, 0x0d, 0x1a, 0xab, 0xc8,
        0x5d, 0x4a, 0xb7, 0x92, 0xe6, 0x8b, 0x48, 0x2e, 0xd4, 0x80, 0x61, 0x85, 0x44, 0x26, 0xf4, 0x0a};
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t *a = kf_os_allocate(1000000), *all = kf_os_allocate(257 * 32);
    if (!a || !all) {
        CHECK(a && all);
        return;
    }
    CHECK(kf_digest_is(two_blocks, sizeof two_blocks - 1, of_two_blocks));
    memset(a, 'a', 1000000);
    CHECK(kf_digest_is(a, 1000000, of_a_million));
    for (unsigned k = 0; k < 256; k++) a[k] = (uint8_t)(k * 7 + 3);
    for (unsigned n = 0; n <= 256; n++) kf_sha256(a, n, all + 32 * n);
    CHECK(kf_digest_is(all, 257 * 32, of_all));
    kf_os_release(a, 1000000);
    kf_os_release(all, 257 * 32);
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
    uint32_t own = kf_cpu_float_begin(), callers = own | FLOAT_MODE;
    kf_cpu_float_end(callers);
    CHECK(kf_cpu_float_begin() == callers);
    uint32_t clean = kf_cpu_float_begin();
    CHECK(clean == (own & ~FLOAT_MODE));
#if defined(__x86_64__)
    CHECK(clean == 0x1f80);
#endif
    kf_cpu_float_end(callers);
    CHECK(kf_cpu_float_begin() == callers);
    kf_cpu_float_end(own);
}

static void canary_is_set(void) {
#if !defined(__x86_64__)
    extern uintptr_t __stack_chk_guard;
    CHECK(__stack_chk_guard != 0 && __stack_chk_guard % 256 == 0);
#endif
}

static void sizes_beyond_the_machine_are_refused(void) {
    CHECK(kf_os_allocate(UINT64_MAX) == NULL && kf_os_allocate((uint64_t)1 << 62) == NULL);
}

int program_main(int argc, char **argv) {
    (void)argc, (void)argv;
    cpu_state_the_system_does_not_save_does_not_count();
    names_of_features();
    ranges_never_overflow();
    digests();
    digests_of_every_length();
    messages_end_where_they_must();
    numbers();
    memory_functions();
    sealed_memory_cannot_change();
    float_mode_is_restored();
    canary_is_set();
    sizes_beyond_the_machine_are_refused();
    return failures != 0;
}
