/* An engine: one payload of one bundle, ready to run.  Everything it changes belongs to it. */
#ifndef KF_ENGINE_H
#define KF_ENGINE_H

#include "admit.h"
#include "bundle.h"
#include "image.h"
#include "pool.h"

struct kf_engine {
    MediaEngine handle; /* what the caller holds; points back here */
    struct kf_choice choice;
    struct kf_image image;
    const struct kf_plan *plan;
    struct kf_bytes weights; /* read-only before its digest was taken */
    struct kf_bytes arena, scratch;
    struct kf_bytes operands; /* addresses of the operands of the running operation */
    struct kf_pool *pool;    /* null: the caller is alone */
    uint32_t threads, partitions;
    MediaError last;
};

int kf_engine_open(const char *path, const MediaConfig *config, struct kf_engine **engine, MediaError *error);
void kf_engine_close(struct kf_engine *engine);
int kf_engine_run(struct kf_engine *engine, const MediaTensor *inputs, MediaTensor *outputs, MediaError *error);

/* The engine behind a handle, or null. */
struct kf_engine *kf_engine_of(const MediaEngine *handle);

#endif
