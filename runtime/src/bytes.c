#include "bytes.h"

#include "digest.h"
#include "error.h"
#include "os.h"

void kf_release(struct kf_bytes *bytes) {
    if (bytes->at) kf_os_release(bytes->at, bytes->size);
    bytes->at = NULL;
    bytes->size = 0;
}

static int read_open(int fd, const char *path, uint64_t least, uint64_t most, struct kf_bytes *out, MediaError *error) {
    uint64_t size = 0;
    int regular = kf_os_regular(fd, &size);
    if (regular < 0) return kf_fail_system(error, path, regular);
    if (!regular) return kf_fail_about(error, MEDIA_E_NOT_A_FILE, path, "not a regular file");
    if (size < least || size > most) {
        kf_fail_about(error, MEDIA_E_SIZE, path, "has ");
        kf_add_number(error, size);
        kf_add(error, least == most ? " bytes instead of " : " bytes, at most ");
        kf_add_number(error, most);
        return error->code;
    }
    out->at = kf_os_allocate(size);
    if (!out->at) return kf_fail_about(error, MEDIA_E_NO_MEMORY, path, "no memory to read it");
    out->size = (size_t)size;
    int64_t got = kf_os_read(fd, out->at, out->size);
    if (got < 0) return kf_fail_system(error, path, got);
    if ((uint64_t)got != size) return kf_fail_about(error, MEDIA_E_SIZE, path, "became shorter while it was read");
    return MEDIA_OK;
}

static int read_path(int folder, const char *path, uint64_t least, uint64_t most, struct kf_bytes *out,
                     MediaError *error) {
    out->at = NULL;
    out->size = 0;
    int fd = kf_os_open(folder, path);
    if (fd == -KF_ENOENT) return kf_fail_about(error, MEDIA_E_NOT_FOUND, path, "no such file");
    if (fd < 0) return kf_fail_system(error, path, fd);
    int code = read_open(fd, path, least, most, out, error);
    kf_os_close(fd);
    if (code) kf_release(out);
    return code;
}

int kf_read_file(int folder, const char *path, uint64_t limit, struct kf_bytes *out, MediaError *error) {
    return read_path(folder, path, 1, limit, out, error);
}

int kf_read_blob(int folder, const uint8_t digest[32], uint64_t size, struct kf_bytes *out, MediaError *error) {
    char path[KF_BLOB_PATH_BYTES];
    kf_blob_path(path, digest);
    return read_path(folder, path, size, size, out, error);
}

int kf_digest_mismatch(const uint8_t digest[32], MediaError *error) {
    char path[KF_BLOB_PATH_BYTES];
    kf_blob_path(path, digest);
    return kf_fail_about(error, MEDIA_E_DIGEST, path, "its bytes do not have the digest of its name");
}
