#include "pool.h"

#include "call.h"
#include "cpu.h"
#include "error.h"
#include "os.h"
#include "thread.h"

#define LEFT ((uint64_t)KF_MAX_RANGES)
#define LINE 64 /* bytes of a cache line: what one thread writes while another one looks has a line of its own */
/* Looks at a word before its reader sleeps: more than the time from one operation of a model to the next, and about
 * what it costs to be woken. */
#define LOOKS 2000u

struct worker {
    struct kf_pool *pool;
    struct kf_bytes scratch;
    struct kf_thread thread;
};

struct kf_pool {
    /* Number of the job, and how many of its ranges nobody has taken: one word, so that a worker that comes late takes
     * nothing of a job that is over. */
    _Alignas(LINE) _Atomic uint64_t work;
    _Atomic uint32_t stop;
    _Alignas(LINE) _Atomic uint32_t done; /* ranges of the job that are computed; the caller sleeps on it */
    _Atomic uint32_t awaited;             /* whether the caller sleeps, or is about to */
    _Alignas(LINE) _Atomic uint32_t bell; /* workers sleep on it */
    _Atomic uint32_t asleep;              /* whether a worker sleeps, or is about to, and was not rung for since */
    _Alignas(LINE) struct kf_job job;     /* written while no range is left and none is being computed */
    size_t bytes;
    int process; /* whose threads the workers are */
    uint32_t n_workers;
    struct worker workers[];
};

/* The w-th of n ranges of [0, parts), as even as can be; the same whatever runs them. */
static int64_t cut(int64_t parts, uint32_t w, uint32_t n) { return parts / n * w + parts % n * w / n; }

static void compute(const struct kf_job *job, uint32_t w, void *scratch) {
    struct kf_ctx ctx = {job->operands, scratch};
    int64_t begin = cut(job->parts, w, job->ranges), end = cut(job->parts, w + 1, job->ranges);
    if (begin < end) kf_call(job->function, &ctx, begin, end);
}

/* Takes ranges until none is left.  Of the job only `work` is read before a range is taken: the job stays until the
 * last range that was taken is done. */
static void help(struct kf_pool *pool, void *scratch) {
    uint64_t work = atomic_load(&pool->work);
    while (work & LEFT) {
        if (!atomic_compare_exchange_weak(&pool->work, &work, work - 1)) continue;
        uint32_t ranges = pool->job.ranges;
        compute(&pool->job, ranges - (uint32_t)(work & LEFT), scratch);
        if (atomic_fetch_add(&pool->done, 1) + 1 == ranges && atomic_load(&pool->awaited))
            kf_thread_wake(&pool->done, 1);
        work = atomic_load(&pool->work);
    }
}

static int idle(struct kf_pool *pool) { return !(atomic_load(&pool->work) & LEFT) && !atomic_load(&pool->stop); }

/* Says that it sleeps before it looks a last time; who has work says so before it looks for sleepers: one of the two
 * sees the other.  The bell is read first of all, and rung last of all, so that it rings in vain for nobody. */
static void rest(struct kf_pool *pool) {
    for (uint32_t k = 0; k < LOOKS; k++) {
        if (!idle(pool)) return;
        kf_cpu_pause();
    }
    uint32_t heard = atomic_load(&pool->bell);
    atomic_store(&pool->asleep, 1);
    if (idle(pool)) kf_thread_sleep(&pool->bell, heard);
}

void kf_thread_main(void *argument) {
    struct worker *w = argument;
    kf_cpu_float_begin();
    while (!atomic_load(&w->pool->stop)) {
        help(w->pool, w->scratch.at);
        rest(w->pool);
    }
}

/* For all that sleep, and once: whoever was rung for may be long in coming, and no operation rings again meanwhile. */
static void ring(struct kf_pool *pool) {
    if (!atomic_load(&pool->asleep)) return;
    atomic_store(&pool->asleep, 0);
    atomic_fetch_add(&pool->bell, 1);
    kf_thread_wake(&pool->bell, INT32_MAX);
}

/* As in `rest`, with the roles exchanged. */
static void await(struct kf_pool *pool, uint32_t ranges) {
    for (uint32_t k = 0; k < LOOKS; k++) {
        if (atomic_load(&pool->done) == ranges) return;
        kf_cpu_pause();
    }
    atomic_store(&pool->awaited, 1);
    for (uint32_t done; (done = atomic_load(&pool->done)) != ranges;) kf_thread_sleep(&pool->done, done);
    atomic_store(&pool->awaited, 0);
}

void kf_pool_run(struct kf_pool *pool, const struct kf_job *job, void *scratch) {
    if (!pool) {
        for (uint32_t w = 0; w < job->ranges; w++) compute(job, w, scratch);
        return;
    }
    pool->job = *job;
    atomic_store(&pool->done, 0);
    atomic_store(&pool->work, (atomic_load(&pool->work) | LEFT) + 1 + job->ranges);
    ring(pool);
    help(pool, scratch);
    await(pool, job->ranges);
}

static int start(struct kf_pool *pool, uint64_t scratch_bytes, MediaError *error) {
    struct worker *w = &pool->workers[pool->n_workers];
    w->pool = pool;
    if (scratch_bytes) {
        w->scratch.at = kf_os_allocate(scratch_bytes);
        if (!w->scratch.at) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for a thread");
        w->scratch.size = (size_t)scratch_bytes;
    }
    int r = kf_thread_start(&w->thread, w);
    if (r < 0) {
        kf_release(&w->scratch);
        return kf_fail_system(error, "starting a thread", r);
    }
    pool->n_workers++;
    return MEDIA_OK;
}

int kf_pool_open(uint32_t threads, uint64_t scratch_bytes, struct kf_pool **out, MediaError *error) {
    size_t bytes = sizeof(struct kf_pool) + (threads - 1) * sizeof(struct worker);
    struct kf_pool *pool = kf_os_allocate(bytes);
    if (!pool) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for the threads");
    pool->bytes = bytes;
    pool->process = kf_os_process();
    int code = MEDIA_OK;
    for (uint32_t k = 1; k < threads && !code; k++) code = start(pool, scratch_bytes, error);
    if (code) kf_pool_close(pool);
    else *out = pool;
    return code;
}

void kf_pool_close(struct kf_pool *pool) {
    if (!pool) return;
    int own = pool->process == kf_os_process();
    if (own) {
        atomic_store(&pool->stop, 1);
        ring(pool);
    }
    for (uint32_t k = 0; k < pool->n_workers; k++) {
        struct worker *w = &pool->workers[k];
        if (own) kf_thread_join(&w->thread);
        else kf_thread_release(&w->thread);
        kf_release(&w->scratch);
    }
    kf_os_release(pool, pool->bytes);
}
