/* Which payload and variant this machine takes, and why none where it takes none. */
#include "bundle.h"
#include "cpu.h"
#include "digest.h"
#include "error.h"
#include "kf_abi.h"
#include "memory.h"

/* Refusals that were met, so that the most telling one is reported: a missing feature before a wrong version, before a
 * wrong machine, before an unknown name. */
struct search {
    const char *target;
    const struct kf_device *device;
    struct kf_choice *choice;
    int found;
    int refusal;                  /* a MEDIA_E_ code, 0 = none met */
    uint64_t missing;             /* of the least demanding variant that lacked features */
    uint32_t missing_preference;
    char missing_target[KF_TARGET_BYTES];
    uint32_t other_version;       /* ABI or IR version of a payload that was refused for it */
};

static int rank_of(int refusal) {
    switch (refusal) {
    case MEDIA_E_CPU: return 4;
    case MEDIA_E_IR_VERSION: return 3;
    case MEDIA_E_ABI: return 2;
    case MEDIA_E_MACHINE: return 1;
    default: return 0;
    }
}

static void refuse(struct search *s, int code, uint32_t version) {
    if (rank_of(code) <= rank_of(s->refusal)) return;
    s->refusal = code;
    s->other_version = version;
}

static struct kf_blob golden_of(const struct kf_header *h, const struct kf_blob *blobs) {
    static const struct kf_blob none;
    for (uint32_t k = 0; k < h->n_blobs; k++)
        if (blobs[k].kind == KF_BLOB_GOLDEN) return blobs[k];
    return none;
}

static void take(struct search *s, const struct kf_header *h, const struct kf_variant *v, const struct kf_blob *blobs) {
    static const struct kf_blob none;
    if (s->found && v->preference <= s->choice->preference) return;
    s->found = 1;
    memcpy(s->choice->target, h->target, KF_TARGET_BYTES);
    s->choice->kernels = blobs[v->kernels];
    s->choice->weights = v->weights == KF_NONE ? none : blobs[v->weights];
    s->choice->golden = golden_of(h, blobs);
    s->choice->abi_version = h->abi_version;
    s->choice->ir_version = h->ir_version;
    s->choice->preference = v->preference;
}

static void remember_missing(struct search *s, const struct kf_header *h, const struct kf_variant *v,
                             uint64_t missing) {
    refuse(s, MEDIA_E_CPU, 0);
    if (s->missing && s->missing_preference <= v->preference) return;
    s->missing = missing;
    s->missing_preference = v->preference;
    memcpy(s->missing_target, h->target, KF_TARGET_BYTES);
}

static void consider(struct search *s, const struct kf_header *h) {
    const struct kf_variant *v = (const void *)(h + 1);
    const struct kf_blob *blobs = (const void *)(v + h->n_variants);
    if (s->target && !kf_same(s->target, h->target)) return;
    if (h->machine != s->device->machine) {
        refuse(s, MEDIA_E_MACHINE, h->machine);
    } else if (h->abi_version != KF_ABI_VERSION) {
        refuse(s, MEDIA_E_ABI, h->abi_version);
    } else if (KF_VERSION_MAJOR(h->ir_version) != KF_VERSION_MAJOR(KF_IR_VERSION)) {
        refuse(s, MEDIA_E_IR_VERSION, h->ir_version);
    } else {
        for (uint32_t k = 0; k < h->n_variants; k++) {
            uint64_t missing = v[k].cpu_features & ~s->device->features;
            if (missing) remember_missing(s, h, &v[k], missing);
            else take(s, h, &v[k], blobs);
        }
    }
}

static int report_missing(const struct search *s, MediaError *error) {
    kf_fail(error, MEDIA_E_CPU, "this processor lacks what ");
    kf_add(error, s->missing_target);
    kf_add(error, " needs:");
    for (unsigned bit = 0; bit < 64; bit++) {
        if (!(s->missing >> bit & 1)) continue;
        const char *name = kf_cpu_feature_name(bit);
        kf_add(error, " ");
        kf_add(error, name ? name : "feature ");
        if (!name) kf_add_number(error, bit);
    }
    return MEDIA_E_CPU;
}

static int report_version(const struct search *s, MediaError *error, const char *what, uint32_t own) {
    kf_fail(error, s->refusal, what);
    kf_add_number(error, s->other_version);
    kf_add(error, ", this runtime has ");
    kf_add_number(error, own);
    return s->refusal;
}

static int report(const struct search *s, MediaError *error) {
    switch (s->refusal) {
    case MEDIA_E_CPU: return report_missing(s, error);
    case MEDIA_E_ABI: return report_version(s, error, "the kernels are for device ABI ", KF_ABI_VERSION);
    case MEDIA_E_MACHINE:
        return report_version(s, error, "no payload for this machine: it is for ELF machine ", s->device->machine);
    case MEDIA_E_IR_VERSION:
        kf_fail(error, MEDIA_E_IR_VERSION, "the kernels have IR version ");
        kf_add_number(error, KF_VERSION_MAJOR(s->other_version));
        kf_add(error, ".x, this runtime takes ");
        kf_add_number(error, KF_VERSION_MAJOR(KF_IR_VERSION));
        kf_add(error, ".x");
        return MEDIA_E_IR_VERSION;
    default:
        return kf_fail_about(error, MEDIA_E_TARGET, s->target ? s->target : "any",
                             "the bundle has no payload of this target");
    }
}

static int read_header(int folder, const struct kf_index_entry *entry, struct kf_bytes *header, MediaError *error) {
    if (entry->size > 1u << 16)
        return kf_fail_about(error, MEDIA_E_INDEX, "media.idx", "size of a payload header out of range");
    int code = kf_read_blob(folder, entry->sha256, entry->size, header, error);
    if (code) return code;
    if (!kf_digest_is(header->at, header->size, entry->sha256)) code = kf_digest_mismatch(entry->sha256, error);
    if (!code) code = kf_header_check(header, error);
    if (code) kf_release(header);
    return code;
}

int kf_bundle_choose(int folder, const char *target, const struct kf_device *device, struct kf_choice *choice,
                     MediaError *error) {
    struct kf_bytes index;
    struct search s = {.target = target, .device = device, .choice = choice};
    int code = kf_read_file(folder, "media.idx", 1u << 20, &index, error);
    if (code) return code;
    code = kf_index_check(&index, error);
    if (!code) {
        const struct kf_index *head = index.at;
        const struct kf_index_entry *entry = (const void *)(head + 1);
        for (uint32_t k = 0; k < head->count && !code; k++) {
            struct kf_bytes header;
            code = read_header(folder, &entry[k], &header, error);
            if (code) break;
            consider(&s, header.at);
            kf_release(&header);
        }
    }
    kf_release(&index);
    if (code || s.found) return code;
    return report(&s, error);
}
