/* threads MODE BUNDLE [ENGINES]: engines with threads, through the interface, on a model that computes y = 2.5 x for
 * x = 0, 1, ...  Modes: "same": one answer for any number of threads and ranges; "limits": what is refused; "churn": so
 * many engines leave nothing behind; "fork": an engine in a child; "hosts": many engines at once, each on a thread of
 * the host; "forbidden": the system refuses threads; "short": memory for some of them only.  Exit status: 0, or
 * it tells the line of the check that failed. */
#include <asm/unistd.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>

#include "media_engine.h"
#include "memory.h"
#include "os.h"
#include "pool.h"
#include "program.h"
#include "syscall.h"
#include "text.h"

#define CHECK(condition)                                                                                               \
    if (!(condition)) return __LINE__ % 255 + 1

enum { HOSTS = 4, ENGINES = 40, TURNS = 20 };

static const char *bundle;
static uint32_t count; /* values of the input and of the output */

static MediaEngine *open_with(uint32_t threads, uint32_t partitions, int *code) {
    MediaEngine *engine = NULL;
    MediaConfig config = MEDIA_CONFIG_INIT;
    MediaError error = MEDIA_ERROR_INIT;
    config.threads = threads;
    config.partitions = partitions;
    *code = media_engine_open(bundle, &config, &engine, &error);
    return engine;
}

/* Whether an inference gives what it must. */
static int answers(MediaEngine *engine, float *x, float *y) {
    MediaTensor in = MEDIA_TENSOR_INIT, out = MEDIA_TENSOR_INIT;
    in.data = x, out.data = y;
    in.bytes = out.bytes = count * sizeof *x;
    for (uint32_t k = 0; k < count; k++) y[k] = -1.0f;
    if (media_engine_infer(engine, &in, &out)) return 0;
    for (uint32_t k = 0; k < count; k++)
        if (y[k] != 2.5f * (float)k) return 0;
    return 1;
}

static float *values(void) {
    float *x = kf_os_allocate(count * sizeof *x);
    for (uint32_t k = 0; x && k < count; k++) x[k] = (float)k;
    return x;
}

static int same(void) {
    static const uint32_t threads[] = {0, 1, 2, 3, 5, 8, MEDIA_MAX_THREADS}, partitions[] = {0, 1, 3, 64, 4096};
    float *x = values(), *y = values();
    CHECK(x && y);
    for (uint32_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (uint32_t p = 0; p < sizeof partitions / sizeof *partitions; p++) {
            int code;
            MediaEngine *engine = open_with(threads[t], partitions[p], &code);
            CHECK(engine && code == MEDIA_OK);
            for (int k = 0; k < TURNS; k++) CHECK(answers(engine, x, y));
            media_engine_destroy(engine);
        }
    return 0;
}

static int limits(void) {
    int code;
    CHECK(!open_with(MEDIA_MAX_THREADS + 1, 0, &code) && code == MEDIA_E_ARGUMENT);
    CHECK(!open_with(UINT32_MAX, 0, &code) && code == MEDIA_E_ARGUMENT);
    CHECK(!open_with(2, 4097, &code) && code == MEDIA_E_ARGUMENT);
    bundle = "/nowhere/at/all";
    CHECK(!open_with(2, 0, &code) && code == MEDIA_E_NOT_FOUND);
    return 0;
}

static uint32_t lines(const char *path) {
    static char text[1 << 20];
    uint32_t found = 0;
    int fd = kf_os_open(-1, path);
    int64_t bytes = fd < 0 ? 0 : kf_os_read(fd, text, sizeof text);
    kf_os_close(fd);
    for (int64_t k = 0; k < bytes; k++) found += text[k] == '\n';
    return found;
}

static uint32_t threads_now(void) {
    static char text[1 << 16];
    static const char name[] = "\nThreads:\t";
    uint32_t found = 0;
    int fd = kf_os_open(-1, "/proc/self/status");
    int64_t bytes = fd < 0 ? 0 : kf_os_read(fd, text, sizeof text - sizeof name);
    kf_os_close(fd);
    for (int64_t k = 0; k < bytes; k++) {
        if (memcmp(text + k, name, sizeof name - 1)) continue;
        k += sizeof name - 1;
        for (; text[k] >= '0' && text[k] <= '9'; k++) found = found * 10 + (uint32_t)(text[k] - '0');
        return found;
    }
    return 0;
}

/* A thread is still there for a moment after it said that it ends; one that stays makes the test hang. */
static void wait_for_threads(uint32_t wanted) {
    while (threads_now() > wanted) kf_syscall1(__NR_sched_yield, 0);
}

static int next_descriptor(void) {
    int fd = kf_os_open(-1, "/proc/self/status");
    kf_os_close(fd);
    return fd;
}

static int churn(uint64_t engines) {
    uint32_t threads = 0, maps = 0;
    int fd = 0, code;
    float *x = values(), *y = values();
    CHECK(x && y);
    for (uint64_t k = 0; k < engines; k++) {
        MediaEngine *engine = open_with(2 + (uint32_t)k % 3, 0, &code);
        CHECK(engine);
        if (k % 100 == 0) CHECK(answers(engine, x, y)); /* most are destroyed while their threads begin */
        if (k == 0) threads = threads_now();            /* an emulator may have threads of its own */
        media_engine_destroy(engine);
        if (k == 0) {
            wait_for_threads(--threads);
            maps = lines("/proc/self/maps");
            fd = next_descriptor();
        }
    }
    wait_for_threads(threads);
    CHECK(lines("/proc/self/maps") <= maps && next_descriptor() == fd);
    return 0;
}

static int in_child(MediaEngine *engine, float *x, float *y) {
    int code;
    uint32_t threads = threads_now();
    CHECK(answers(engine, x, y) && answers(engine, x, y) && threads_now() == threads);
    media_engine_destroy(engine);
    engine = open_with(3, 0, &code); /* a child may have threads of its own */
    CHECK(engine && answers(engine, x, y));
    media_engine_destroy(engine);
    return 0;
}

static int forked(void) {
    int code;
    float *x = values(), *y = values();
    MediaEngine *engine = open_with(3, 0, &code);
    CHECK(x && y && engine);
    for (int k = 0; k < TURNS; k++) { /* now the threads sleep, now they look for work */
        CHECK(answers(engine, x, y));
        int child = kf_os_fork();
        CHECK(child >= 0);
        if (child == 0) kf_os_exit(in_child(engine, x, y));
        if (k % 2) CHECK(answers(engine, x, y));
        int status = kf_os_wait(child);
        if (status) return status >> 8 ? status >> 8 : 255;
    }
    CHECK(answers(engine, x, y));
    media_engine_destroy(engine);
    return 0;
}

static _Atomic uint32_t wrong;

static void host(void *ctx, int64_t begin, int64_t end) {
    (void)ctx;
    for (int64_t k = begin; k < end; k++) {
        int code;
        float *x = values(), *y = values();
        MediaEngine *engine = open_with(1 + (uint32_t)k % 4, 0, &code);
        for (int n = 0; n < 5; n++) wrong += !engine || !answers(engine, x, y);
        media_engine_destroy(engine);
        kf_os_release(x, count * sizeof *x);
        kf_os_release(y, count * sizeof *y);
    }
}

static int hosts(void) {
    MediaError error = MEDIA_ERROR_INIT;
    struct kf_pool *pool = NULL;
    struct kf_job job = {host, NULL, ENGINES, ENGINES};
    CHECK(kf_pool_open(HOSTS, 0, &pool, &error) == MEDIA_OK);
    kf_pool_run(pool, &job, NULL);
    kf_pool_close(pool);
    CHECK(!wrong);
    return 0;
}

static int refused(int wanted) {
    uint32_t maps = lines("/proc/self/maps"), threads = threads_now();
    int fd = next_descriptor(), code;
    for (int k = 0; k < TURNS; k++) CHECK(!open_with(MEDIA_MAX_THREADS, 0, &code) && code == wanted);
    wait_for_threads(threads);
    CHECK(lines("/proc/self/maps") <= maps && next_descriptor() == fd);
    MediaEngine *alone = open_with(1, 0, &code);
    CHECK(alone);
    media_engine_destroy(alone);
    return 0;
}

static int forbidden(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(kf_syscall6(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0) == 0);
    CHECK(kf_syscall3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) == 0);
    return refused(MEDIA_E_SYSTEM);
}

static int out_of_memory(void) { /* room for an engine and some stacks, not for 63 */
    struct {
        uint64_t soft, hard;
    } limit = {12u << 20, 12u << 20};
    CHECK(kf_syscall4(__NR_prlimit64, 0, RLIMIT_AS, (long)&limit, 0) == 0);
    return refused(MEDIA_E_NO_MEMORY);
}

int program_main(int argc, char **argv) {
    MediaTensorInfo info = MEDIA_TENSOR_INFO_INIT;
    uint64_t engines = 0;
    int code;
    CHECK(argc == 3 || (argc == 4 && text_parse(argv[3], &engines)));
    bundle = argv[2];
    MediaEngine *engine = open_with(0, 0, &code);
    CHECK(engine && media_engine_describe(engine, MEDIA_INPUT, 0, &info) == MEDIA_OK);
    count = (uint32_t)(info.bytes / 4);
    media_engine_destroy(engine);
    if (kf_same(argv[1], "same")) return same();
    if (kf_same(argv[1], "limits")) return limits();
    if (kf_same(argv[1], "churn")) return churn(engines);
    if (kf_same(argv[1], "fork")) return forked();
    if (kf_same(argv[1], "hosts")) return hosts();
    if (kf_same(argv[1], "forbidden")) return forbidden();
    if (kf_same(argv[1], "short")) return out_of_memory();
    return 255;
}
