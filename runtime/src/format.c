/* The two file formats: nothing of a file is used before it went through one of these. */
#include "bundle.h"
#include "error.h"
#include "memory.h"

static int bad_index(MediaError *error, const char *why) {
    return kf_fail_about(error, MEDIA_E_INDEX, "media.idx", why);
}
static int bad_header(MediaError *error, const char *why) {
    return kf_fail_about(error, MEDIA_E_HEADER, "payload header", why);
}

int kf_index_check(const struct kf_bytes *file, MediaError *error) {
    const struct kf_index *index = file->at;
    if (file->size < sizeof *index) return bad_index(error, "shorter than its header");
    if (index->magic != KF_INDEX_MAGIC) return bad_index(error, "not an index of payloads");
    if (index->version != KF_FORMAT_VERSION)
        return bad_index(error, "of a format version that this runtime does not know");
    if (index->count == 0 || index->count > KF_MAX_PAYLOADS) return bad_index(error, "number of payloads out of range");
    uint64_t bytes = sizeof *index + (uint64_t)index->count * sizeof(struct kf_index_entry);
    if (index->bytes != bytes || file->size != bytes)
        return bad_index(error, "its size does not fit the number of payloads");
    return MEDIA_OK;
}

static int check_target(const char target[KF_TARGET_BYTES]) { /* 1 to 31 of a-z 0-9 - . _, then zeros */
    unsigned n = 0;
    for (; n < KF_TARGET_BYTES && target[n]; n++) {
        char c = target[n];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_')) return 0;
    }
    if (n == 0 || n == KF_TARGET_BYTES) return 0;
    for (; n < KF_TARGET_BYTES; n++)
        if (target[n]) return 0;
    return 1;
}

static int check_tables(const struct kf_header *h, MediaError *error) {
    const struct kf_variant *v = (const void *)(h + 1);
    const struct kf_blob *b = (const void *)(v + h->n_variants);
    uint32_t golden = 0;
    for (uint32_t k = 0; k < h->n_blobs; k++) {
        if (b[k].kind < KF_BLOB_KERNELS || b[k].kind > KF_BLOB_GOLDEN)
            return bad_header(error, "blob of an unknown kind");
        if (b[k].kind == KF_BLOB_GOLDEN && golden++) return bad_header(error, "golden vectors twice");
        if (b[k].reserved || b[k].size == 0 || b[k].size >> 40) return bad_header(error, "size of a blob out of range");
    }
    for (uint32_t k = 0; k < h->n_variants; k++) {
        if (v[k].reserved) return bad_header(error, "reserved field in use");
        if (v[k].kernels >= h->n_blobs || b[v[k].kernels].kind != KF_BLOB_KERNELS)
            return bad_header(error, "variant without kernels");
        if (v[k].weights == KF_NONE) continue;
        if (v[k].weights >= h->n_blobs || b[v[k].weights].kind != KF_BLOB_WEIGHTS)
            return bad_header(error, "variant with wrong weights");
    }
    return MEDIA_OK;
}

int kf_header_check(const struct kf_bytes *file, MediaError *error) {
    const struct kf_header *h = file->at;
    if (file->size < sizeof *h) return bad_header(error, "shorter than its fixed part");
    if (h->magic != KF_HEADER_MAGIC) return bad_header(error, "not a payload header");
    if (h->version != KF_FORMAT_VERSION)
        return bad_header(error, "of a format version that this runtime does not know");
    if (h->n_variants == 0 || h->n_variants > KF_MAX_VARIANTS)
        return bad_header(error, "number of variants out of range");
    if (h->n_blobs == 0 || h->n_blobs > KF_MAX_BLOBS) return bad_header(error, "number of blobs out of range");
    size_t bytes = sizeof *h + h->n_variants * sizeof(struct kf_variant) + h->n_blobs * sizeof(struct kf_blob);
    if (h->bytes != bytes || file->size != bytes) return bad_header(error, "its size does not fit its tables");
    if (!check_target(h->target)) return bad_header(error, "name of the target is malformed");
    return check_tables(h, error);
}
