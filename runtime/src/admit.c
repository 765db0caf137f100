#include "admit.h"

#include "call.h"
#include "cpu.h"
#include "error.h"
#include "memory.h"
#include "os.h"

#define MAX_COUNT (1u << 20)
#define MAX_BYTES ((uint64_t)1 << 40)

struct table { /* the image of the table, taken apart */
    const struct kf_table *head;
    const struct kf_function *functions;
    const struct kf_op *ops;
    const struct kf_operand *operands;
    const struct kf_tensor *tensors;
};

static int bad(MediaError *error, const char *why) { return kf_fail_about(error, MEDIA_E_TABLE, "entry table", why); }

static int numbered(MediaError *error, int code, const char *what, uint32_t number, const char *why) {
    kf_fail(error, code, what);
    kf_add_number(error, number);
    kf_add(error, ": ");
    kf_add(error, why);
    return code;
}

static const void *array(const struct kf_table *t, uint32_t offset, uint32_t count, size_t each) {
    return offset % 8 == 0 && count <= MAX_COUNT && kf_within(offset, count * each, t->bytes)
               ? (const uint8_t *)t + offset
               : NULL;
}

static int take_apart(const struct kf_image *image, struct table *out, MediaError *error) {
    const struct kf_table *t = image->table;
    if (t->magic != KF_TABLE_MAGIC) return bad(error, "not a table");
    if (t->abi_version != KF_ABI_VERSION)
        return kf_fail_about(error, MEDIA_E_ABI, "entry table", "of another device ABI");
    if (KF_VERSION_MAJOR(t->ir_version) != KF_VERSION_MAJOR(KF_IR_VERSION))
        return kf_fail_about(error, MEDIA_E_IR_VERSION, "entry table", "of another major IR version");
    if (t->bytes < sizeof *t || t->bytes > image->room) return bad(error, "larger than the data it lies in");
    if (t->alignment != KF_ALIGNMENT || t->reserved) return bad(error, "alignment or reserved field out of form");
    if (t->arena_bytes > MAX_BYTES || t->weights_bytes > MAX_BYTES || t->scratch_bytes > MAX_BYTES)
        return bad(error, "memory sizes out of range");
    out->head = t;
    out->functions = array(t, t->off_functions, t->n_functions, sizeof *out->functions);
    out->ops = array(t, t->off_ops, t->n_ops, sizeof *out->ops);
    out->operands = array(t, t->off_operands, t->n_operands, sizeof *out->operands);
    out->tensors = array(t, t->off_tensors, t->n_tensors, sizeof *out->tensors);
    if (t->n_tensors > KF_MAX_TENSORS) return bad(error, "too many tensors");
    if (!out->functions || !out->ops || !out->operands || !out->tensors ||
        !kf_within(t->off_strings, t->n_strings, t->bytes))
        return bad(error, "an array out of the table");
    return MEDIA_OK;
}

/* Length of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7), 0 where there is none in n bytes. */
static uint32_t sequence(const uint8_t *s, uint32_t n) {
    uint32_t more = s[0] < 0x80 ? 0 : s[0] < 0xc2 ? 4 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : s[0] < 0xf5 ? 3 : 4;
    if (more >= n || more == 4) return 0;
    for (uint32_t k = 1; k <= more; k++)
        if ((s[k] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)) return 0; /* too long; surrogates */
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0; /* too long; beyond Unicode */
    return more + 1;
}

/* Names are shown, compared and handed on as text: UTF-8 without control characters, which could drive a terminal. */
static int is_text(const char *text, uint32_t n) {
    const uint8_t *s = (const uint8_t *)text;
    for (uint32_t at = 0, length; at < n; at += length) {
        length = sequence(s + at, n - at);
        if (!length || s[at] < 0x20 || s[at] == 0x7f || (s[at] == 0xc2 && s[at + 1] < 0xa0)) return 0;
    }
    return n > 0;
}

static int check_tensor(const struct kf_table *t, const struct kf_tensor *n) {
    uint64_t bytes = 4;
    if (!kf_within(n->name_offset, n->name_length, t->n_strings)) return 0;
    if (!is_text((const char *)t + t->off_strings + n->name_offset, n->name_length)) return 0;
    if (n->dtype != KF_F32 || n->rank > KF_MAX_RANK || n->direction > KF_OUT || n->reserved) return 0;
    for (uint32_t k = 0; k < KF_MAX_RANK; k++) {
        if (k >= n->rank && n->dims[k]) return 0;
        if (k >= n->rank) continue;
        if (n->dims[k] <= 0 || (uint64_t)n->dims[k] > MAX_BYTES / bytes) return 0;
        bytes *= (uint64_t)n->dims[k];
    }
    return n->bytes == bytes;
}

static int check_tensors(const struct table *t, struct kf_plan *plan, MediaError *error) {
    for (uint32_t k = 0; k < t->head->n_tensors; k++) {
        if (!check_tensor(t->head, &t->tensors[k])) return numbered(error, MEDIA_E_TABLE, "tensor ", k, "out of form");
        if (t->tensors[k].direction == KF_IN) plan->n_inputs++;
        else plan->n_outputs++;
    }
    return plan->n_outputs ? MEDIA_OK : bad(error, "no output");
}

/* Readable bytes before the function, the id of kf_tile among them, and the machine's landing pad at its start. */
static const char *reject(const struct kf_image *image, const struct kf_function *f) {
    uintptr_t at = (uintptr_t)f->u.fn;
    uint32_t stored;
    if (at < image->exec_low + 4 || at >= image->exec_high || image->exec_high - at < KF_LANDING_PAD_BYTES)
        return "outside the code";
    if (at % sizeof stored) return "not aligned";
    if (f->type_id != kf_tile_type() || f->reserved) return "of another type";
    memcpy(&stored, (const uint8_t *)at - 4, sizeof stored);
    if (stored != kf_tile_type()) return "no type id before its code";
    if (!kf_cpu_landing_pad((const uint8_t *)at)) return "no landing pad at its start";
    return NULL;
}

static int check_functions(const struct kf_image *image, const struct table *t, MediaError *error) {
    for (uint32_t k = 0; k < t->head->n_functions; k++) {
        const char *why = reject(image, &t->functions[k]);
        if (why) return numbered(error, MEDIA_E_NOT_ADMITTED, "function ", k, why);
    }
    return MEDIA_OK;
}

static int check_operand(const struct table *t, const struct kf_plan *plan, const struct kf_operand *p,
                         uint64_t weights_bytes) {
    switch (p->space) {
    case KF_ARENA:
        return p->index == 0 && p->offset % KF_ALIGNMENT == 0 && kf_within(p->offset, p->bytes, t->head->arena_bytes);
    case KF_WEIGHTS:
        return p->index == 0 && p->offset % KF_ALIGNMENT == 0 && kf_within(p->offset, p->bytes, weights_bytes);
    case KF_INPUT:
    case KF_OUTPUT: {
        const struct kf_tensor *n = kf_plan_tensor(plan, p->space == KF_INPUT ? KF_IN : KF_OUT, p->index);
        return n && p->offset % 4 == 0 && kf_within(p->offset, p->bytes, n->bytes);
    }
    default: return 0;
    }
}

static int check_ops(const struct table *t, struct kf_plan *plan, uint64_t weights_bytes, MediaError *error) {
    for (uint32_t k = 0; k < t->head->n_operands; k++)
        if (!check_operand(t, plan, &t->operands[k], weights_bytes))
            return numbered(error, MEDIA_E_TABLE, "operand ", k, "out of its memory");
    for (uint32_t k = 0; k < t->head->n_ops; k++) {
        const struct kf_op *o = &t->ops[k];
        if (o->function >= t->head->n_functions || o->reserved ||
            !kf_within(o->first_operand, o->n_operands, t->head->n_operands) || o->parts == 0 || o->parts > MAX_BYTES)
            return numbered(error, MEDIA_E_TABLE, "operation ", k, "out of form");
        plan->steps[k].function = t->functions[o->function].u.fn;
        plan->steps[k].operands = &t->operands[o->first_operand];
        plan->steps[k].n_operands = o->n_operands;
        plan->steps[k].parts = (int64_t)o->parts;
        for (uint32_t n = 0; n < o->n_operands; n++) plan->steps[k].bytes += plan->steps[k].operands[n].bytes;
        if (o->n_operands > plan->most_operands) plan->most_operands = o->n_operands;
    }
    plan->n_steps = t->head->n_ops;
    return MEDIA_OK;
}

int kf_admit(const struct kf_image *image, uint64_t weights_bytes, const struct kf_plan **out, MediaError *error) {
    struct table t;
    int code = take_apart(image, &t, error);
    if (code) return code;
    if (t.head->weights_bytes != weights_bytes) return bad(error, "made for weights of another size");
    size_t bytes = sizeof(struct kf_plan) + t.head->n_ops * sizeof(struct kf_step);
    struct kf_plan *plan = kf_os_allocate(bytes);
    if (!plan) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for the plan");
    plan->bytes = bytes;
    plan->table = t.head;
    plan->tensors = t.tensors;
    plan->strings = (const char *)t.head + t.head->off_strings;
    code = check_tensors(&t, plan, error);
    if (!code) code = check_functions(image, &t, error);
    if (!code) code = check_ops(&t, plan, weights_bytes, error);
    if (!code) {
        int r = kf_os_protect(plan, bytes, KF_READ);
        if (r < 0) code = kf_fail_system(error, "protecting the plan", r);
    }
    if (code) kf_plan_release(plan);
    else *out = plan;
    return code;
}

void kf_plan_release(const struct kf_plan *plan) {
    if (plan) kf_os_release((void *)(uintptr_t)plan, plan->bytes);
}

const struct kf_tensor *kf_plan_tensor(const struct kf_plan *plan, uint32_t direction, uint32_t index) {
    for (uint32_t k = 0; k < plan->table->n_tensors; k++)
        if (plan->tensors[k].direction == direction && index-- == 0) return &plan->tensors[k];
    return NULL;
}
