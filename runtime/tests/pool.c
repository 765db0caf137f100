/* pool MODE THREADS JOBS: a pool that computes many tiny jobs, each part of which must be computed exactly once, by a
 * thread with scratch memory of its own and in the float mode of kernels.  Modes: "steady": one job behind the other;
 * "sleepy": the caller or a worker dawdles at times, so that the others fall asleep; "meet": a job is over when all
 * threads are in it at once, so that one that is not woken makes it endless; "good" and "other-type": a worker calls
 * through kf_call, the caller only waits for it. */
#include <asm/unistd.h>
#include <stdatomic.h>

#include "call.h"
#include "cpu.h"
#include "memory.h"
#include "os.h"
#include "pool.h"
#include "program.h"
#include "syscall.h"
#include "text.h"

#define PARTS 97
#define SCRATCH 4096u
#define DAWDLE_NS 300000u /* longer than anybody looks before it sleeps */

static _Atomic uint32_t counts[PARTS], wrong;
static _Atomic uint32_t job_number;
static int sleepy;
static long caller;

static long self(void) { return kf_syscall1(__NR_gettid, 0); }

static void dawdle(uint64_t nanoseconds) {
    for (uint64_t end = kf_os_nanoseconds(KF_CLOCK_MONOTONIC) + nanoseconds;
         kf_os_nanoseconds(KF_CLOCK_MONOTONIC) < end;)
        kf_cpu_pause();
}

static uint32_t mode_of_float(void) {
    uint32_t mode = kf_cpu_float_begin();
    kf_cpu_float_end(mode);
    return mode;
}

static uint32_t wanted_mode;

static void count(void *ctx, int64_t begin, int64_t end) {
    const struct kf_ctx *c = ctx;
    volatile uint32_t *own = c->scratch;
    uint32_t job = atomic_load(&job_number);
    own[0] = (uint32_t)begin;
    if (c->operands[0] != &counts || (mode_of_float() ^ wanted_mode) & ~0x3fu) atomic_fetch_add(&wrong, 1);
    if (sleepy && job % 16 == 3 && begin % 8 == 5) dawdle(DAWDLE_NS);
    for (int64_t k = begin; k < end; k++) atomic_fetch_add(&counts[k], 1);
    if (own[0] != (uint32_t)begin) atomic_fetch_add(&wrong, 1); /* somebody else wrote there */
}

static _Atomic uint32_t met;

/* One of as many ranges as threads: nobody leaves it before all have come. */
static void meet(void *ctx, int64_t begin, int64_t end) {
    uint32_t threads = (uint32_t)(uintptr_t)((const struct kf_ctx *)ctx)->operands[0];
    (void)begin, (void)end;
    atomic_fetch_add(&met, 1);
    while (atomic_load(&met) < threads) kf_syscall1(__NR_sched_yield, 0);
}

static int meetings(uint32_t threads, uint32_t jobs) {
    void *operands[1] = {(void *)(uintptr_t)threads};
    struct kf_job job = {meet, operands, threads, threads};
    MediaError error = MEDIA_ERROR_INIT;
    struct kf_pool *pool;
    if (kf_pool_open(threads, 0, &pool, &error)) return 3;
    for (uint32_t k = 0; k < jobs; k++) {
        atomic_store(&met, 0);
        kf_pool_run(pool, &job, NULL);
        if (atomic_load(&met) != threads) return 4;
        dawdle(k * 7919ull % (DAWDLE_NS / 2)); /* so that some jobs come just when a thread falls asleep */
    }
    kf_pool_close(pool);
    return 0;
}

static void tile(void *ctx, int64_t begin, int64_t end) {
    (void)ctx, (void)begin, (void)end;
    kf_os_write(1, "ran\n", 4);
}
static void other_type(void *ctx) {
    (void)ctx;
    kf_os_write(1, "ran\n", 4);
}

static uintptr_t called;
static _Atomic uint32_t called_already;

/* Of two ranges the caller takes one and waits for the worker that takes the other one. */
static void call_in_worker(void *ctx, int64_t begin, int64_t end) {
    if (self() == caller) {
        while (!atomic_load(&called_already)) kf_syscall1(__NR_sched_yield, 0);
        return;
    }
    if (atomic_load(&called_already)) return; /* it took both */
    kf_call((kf_tile *)called, ctx, begin, end);
    atomic_store(&called_already, 1);
}

static int run(uint32_t threads, uint32_t jobs) {
    static void *operands[1] = {&counts};
    MediaError error = MEDIA_ERROR_INIT;
    struct kf_pool *pool = NULL;
    void *scratch = kf_os_allocate(SCRATCH);
    if (!scratch || (threads > 1 && kf_pool_open(threads, SCRATCH, &pool, &error))) return 3;
    uint32_t mode = kf_cpu_float_begin();
    wanted_mode = mode_of_float();
    for (uint32_t k = 1; k <= jobs; k++) {
        struct kf_job job = {count, operands, PARTS - k % 5, 1 + k % 40};
        atomic_store(&job_number, k);
        kf_pool_run(pool, &job, scratch);
        for (int64_t part = 0; part < PARTS; part++)
            if (atomic_exchange(&counts[part], 0) != (part < job.parts)) return 4;
        if (sleepy && k % 16 == 9) dawdle(DAWDLE_NS);
    }
    kf_cpu_float_end(mode);
    kf_pool_close(pool);
    return atomic_load(&wrong) ? 5 : 0;
}

static int call(uintptr_t function) {
    struct kf_job job = {call_in_worker, NULL, 2, 2};
    MediaError error = MEDIA_ERROR_INIT;
    struct kf_pool *pool;
    called = function;
    caller = self();
    if (kf_pool_open(2, 0, &pool, &error)) return 3;
    kf_pool_run(pool, &job, NULL);
    kf_pool_close(pool);
    return 0;
}

int program_main(int argc, char **argv) {
    uint64_t threads = 0, jobs = 0;
    if (argc == 2 && kf_same(argv[1], "good")) return call((uintptr_t)tile);
    if (argc == 2 && kf_same(argv[1], "other-type")) return call((uintptr_t)other_type);
    if (argc != 4 || !text_parse(argv[2], &threads) || !text_parse(argv[3], &jobs)) return 2;
    if (kf_same(argv[1], "meet")) return meetings((uint32_t)threads, (uint32_t)jobs);
    sleepy = kf_same(argv[1], "sleepy");
    return run((uint32_t)threads, (uint32_t)jobs);
}
