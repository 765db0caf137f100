/* The threads of one engine, and how one operation is shared among them.
 *
 * An operation is cut into ranges that do not depend on who computes them; whoever is free takes the next one.  So the
 * caller waits for ranges that somebody has begun, never for a thread: workers that sleep, are late, or are gone (in a
 * child after fork) make an operation slower and nothing else. */
#ifndef KF_POOL_H
#define KF_POOL_H

#include "bytes.h"
#include "kf_abi.h"

#define KF_MAX_RANGES 65535u

struct kf_job {
    kf_tile *function;
    void *const *operands;
    int64_t parts;
    uint32_t ranges; /* at most KF_MAX_RANGES; some are empty where they are more than the parts */
};

struct kf_pool;

/* `threads` is at least 2 and counts the caller; every worker gets so much scratch memory of its own. */
int kf_pool_open(uint32_t threads, uint64_t scratch_bytes, struct kf_pool **pool, MediaError *error);
void kf_pool_close(struct kf_pool *pool); /* null is allowed; in a child after fork it waits for nobody */

/* Computes all ranges; `scratch` is the caller's.  With a pool of null the caller computes them alone, in order. */
void kf_pool_run(struct kf_pool *pool, const struct kf_job *job, void *scratch);

#endif
