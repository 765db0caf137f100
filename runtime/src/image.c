#include "image.h"

#include "digest.h"
#include "elf.h"
#include "error.h"
#include "memory.h"
#include "os.h"

static int access_of(const kf_phdr *h) { return KF_READ | (h->p_flags & PF_X ? KF_EXEC : 0); }

/* Read-only segments come from the sealed file; the data is private memory, relocated before it turns read-only. */
static int map_segments(int fd, const struct kf_elf *elf, struct kf_image *image, MediaError *error) {
    for (uint32_t k = 0; k < elf->n_load; k++) {
        const kf_phdr *h = &elf->load[k];
        uint64_t cut = h->p_vaddr % KF_PAGE;
        uint8_t *at = image->base + (h->p_vaddr - cut);
        int writable = (h->p_flags & PF_W) != 0;
        int r = writable ? kf_os_map_at(at, -1, 0, (size_t)(h->p_memsz + cut), KF_READ | KF_WRITE)
                         : kf_os_map_at(at, fd, h->p_offset - cut, (size_t)(h->p_filesz + cut), access_of(h));
        if (r < 0) return kf_fail_system(error, "mapping the kernel object", r);
        if (!writable) continue;
        memcpy(at + cut, elf->file + h->p_offset, (size_t)h->p_filesz);
        int code = kf_elf_relocate(elf, at + cut, (uint64_t)(uintptr_t)image->base, error);
        if (code) return code;
        r = kf_os_protect(at, (size_t)(h->p_memsz + cut), KF_READ);
        if (r < 0) return kf_fail_system(error, "protecting the entry table", r);
    }
    return MEDIA_OK;
}

static int map_image(int fd, const uint8_t *file, size_t size, struct kf_image *image, MediaError *error) {
    struct kf_elf elf;
    int code = kf_elf_read(file, size, &elf, error);
    if (code) return code;
    uint64_t into = elf.entry - elf.data.p_vaddr;
    if (elf.entry < elf.data.p_vaddr || into % 8 || !kf_within(into, sizeof(struct kf_table), elf.data.p_filesz))
        return kf_fail_about(error, MEDIA_E_TABLE, "kernel object", "the entry point is not a table in its data");
    image->span = (size_t)elf.span;
    image->base = kf_os_reserve(image->span);
    if (!image->base) return kf_fail(error, MEDIA_E_NO_MEMORY, "no address space for the kernel object");
    code = map_segments(fd, &elf, image, error);
    if (code) return code;
    image->table = (const void *)(image->base + elf.entry);
    image->room = (size_t)(elf.data.p_filesz - into);
    image->exec_low = (uintptr_t)image->base + elf.text.p_vaddr;
    image->exec_high = image->exec_low + elf.text.p_filesz;
    return MEDIA_OK;
}

static int map_sealed(int fd, size_t size, const uint8_t digest[32], struct kf_image *image, MediaError *error) {
    uint8_t *file = kf_os_map(fd, 0, size, KF_READ);
    if (!file) return kf_fail(error, MEDIA_E_NO_MEMORY, "no memory for the kernel object");
    int code =
        kf_digest_is(file, size, digest) ? map_image(fd, file, size, image, error) : kf_digest_mismatch(digest, error);
    kf_os_unmap(file, size);
    return code;
}

int kf_image_load(const struct kf_bytes *file, const uint8_t digest[32], struct kf_image *image, MediaError *error) {
    memset(image, 0, sizeof *image);
    int fd = kf_os_memory_file("kernels");
    if (fd < 0) return kf_fail_system(error, "memfd_create", fd);
    int r = kf_os_write(fd, file->at, file->size);
    if (r >= 0) r = kf_os_seal(fd);
    int code = r < 0 ? kf_fail_system(error, "sealing the kernel object", r)
                     : map_sealed(fd, file->size, digest, image, error);
    kf_os_close(fd);
    if (code) kf_image_unload(image);
    return code;
}

void kf_image_unload(struct kf_image *image) {
    if (image->base) kf_os_unmap(image->base, image->span);
    memset(image, 0, sizeof *image);
}
