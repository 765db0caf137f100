/* Runs the entry table of a kernel object as the runtime does on one thread, and times each operation where it stands.
 *
 * The clock is the C library's clock_gettime, given by the caller.  One reading lies between two operations, so each time
 * holds one reading; `kf_reading` says how much that is.  Compiled without KCFI: the C library carries no type ids. */
#include "kf_abi.h"

#define MOST_OPERANDS 512

#define THREAD_CPU_TIME 3 /* Linux's CLOCK_THREAD_CPUTIME_ID */

typedef int kf_clock(int clock, int64_t time[2]);

struct kf_memory {
    char *arena;
    const char *weights;
    char *const *inputs, *const *outputs;
};

int kf_infer(const struct kf_table *table, const struct kf_memory *memory);
int kf_infer_timed(const struct kf_table *table, const struct kf_memory *memory, kf_clock *read, int64_t *took);
int64_t kf_reading(kf_clock *read, int64_t times);

static int64_t nanoseconds(kf_clock *read) {
    int64_t time[2] = {0, 0};
    read(THREAD_CPU_TIME, time);
    return time[0] * 1000000000 + time[1];
}

static const void *image_at(const struct kf_table *table, uint32_t offset) {
    return (const char *)table + offset;
}

static void *address_of(const struct kf_operand *operand, const struct kf_memory *memory) {
    switch (operand->space) {
    case KF_WEIGHTS: return (void *)(uintptr_t)(memory->weights + operand->offset);
    case KF_INPUT: return memory->inputs[operand->index] + operand->offset;
    case KF_OUTPUT: return memory->outputs[operand->index] + operand->offset;
    default: return memory->arena + operand->offset;
    }
}

/* 0 when the operation has more operands than fit. */
static int run(const struct kf_table *table, const struct kf_op *op, const struct kf_memory *memory) {
    const struct kf_function *functions = image_at(table, table->off_functions);
    const struct kf_operand *operands = image_at(table, table->off_operands);
    void *addresses[MOST_OPERANDS];
    if (op->n_operands > MOST_OPERANDS) return 0;
    for (uint32_t i = 0; i < op->n_operands; i++)
        addresses[i] = address_of(&operands[op->first_operand + i], memory);
    struct kf_ctx context = {addresses, 0};
    functions[op->function].u.fn(&context, 0, (int64_t)op->parts);
    return 1;
}

/* One inference; 0 when it cannot be run. */
__attribute__((visibility("default"))) int kf_infer(const struct kf_table *table, const struct kf_memory *memory) {
    const struct kf_op *ops = image_at(table, table->off_ops);
    for (uint32_t i = 0; i < table->n_ops; i++)
        if (!run(table, &ops[i], memory)) return 0;
    return 1;
}

/* The same; took[i] becomes the time of operation i. */
__attribute__((visibility("default"))) int kf_infer_timed(const struct kf_table *table, const struct kf_memory *memory,
                                                         kf_clock *read, int64_t *took) {
    const struct kf_op *ops = image_at(table, table->off_ops);
    int64_t before = nanoseconds(read);
    for (uint32_t i = 0; i < table->n_ops; i++) {
        if (!run(table, &ops[i], memory)) return 0;
        const int64_t after = nanoseconds(read);
        took[i] = after - before;
        before = after;
    }
    return 1;
}

/* What a reading of the clock takes: the least of so many. */
__attribute__((visibility("default"))) int64_t kf_reading(kf_clock *read, int64_t times) {
    int64_t found = INT64_MAX, before = nanoseconds(read);
    for (int64_t i = 0; i < times; i++) {
        const int64_t after = nanoseconds(read);
        if (after - before < found) found = after - before;
        before = after;
    }
    return found;
}
