#include "elf.h"

#include "bytes.h"
#include "cpu.h"
#include "error.h"
#include "memory.h"

static int malformed(MediaError *error, const char *why) {
    return kf_fail_about(error, MEDIA_E_ELF, "kernel object", why);
}
static int denied(MediaError *error, const char *why) {
    return kf_fail_about(error, MEDIA_E_ELF_POLICY, "kernel object", why);
}
static uint64_t page_up(uint64_t at) { return (at + KF_PAGE - 1) & ~(uint64_t)(KF_PAGE - 1); }

static int check_header(const kf_ehdr *e, size_t size, MediaError *error) {
    if (size < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG)) return malformed(error, "not an ELF file");
    if (e->e_ident[EI_CLASS] != KF_ELF_CLASS || e->e_ident[EI_DATA] != ELFDATA2LSB ||
        e->e_ident[EI_VERSION] != EV_CURRENT)
        return malformed(error, "of another word size, or not little-endian");
    if (e->e_machine != kf_cpu_machine()) return malformed(error, "for another machine");
    if (e->e_type != ET_DYN || e->e_version != EV_CURRENT || e->e_ehsize != sizeof *e)
        return malformed(error, "not a shared object");
    if (e->e_phentsize != sizeof(kf_phdr) || e->e_phnum == 0 || e->e_phnum > KF_MAX_SEGMENTS || e->e_phoff % sizeof(uintptr_t))
        return malformed(error, "segment table out of form");
    if (!kf_within(e->e_phoff, e->e_phnum * sizeof(kf_phdr), size))
        return malformed(error, "segment table out of the file");
    return MEDIA_OK;
}

static int take_load(struct kf_elf *elf, const kf_phdr *h, MediaError *error) {
    if (!(h->p_flags & PF_R)) return denied(error, "a segment that cannot be read");
    if ((h->p_flags & PF_W) && (h->p_flags & PF_X)) return denied(error, "a segment writable and executable");
    if (!kf_within(h->p_offset, h->p_filesz, elf->size)) return malformed(error, "a segment out of the file");
    if (h->p_filesz == 0 || h->p_filesz > h->p_memsz)
        return malformed(error, "a segment larger in the file than in memory");
    if (!kf_within(h->p_vaddr, h->p_memsz, KF_MAX_SPAN)) return malformed(error, "a segment out of the address range");
    if ((h->p_vaddr ^ h->p_offset) % KF_PAGE) return malformed(error, "a segment not aligned to 64 KiB pages");
    if (elf->n_load && h->p_vaddr / KF_PAGE * KF_PAGE < elf->span)
        return malformed(error, "segments that overlap or share a page");
    elf->span = page_up((uint64_t)h->p_vaddr + h->p_memsz);
    if (h->p_flags & PF_X) {
        if (h->p_vaddr % KF_PAGE) return malformed(error, "code that shares its first page with something else");
        if (elf->text.p_memsz) return denied(error, "more than one executable segment");
        elf->text = *h;
    }
    if (h->p_flags & PF_W) {
        if (elf->data.p_memsz) return denied(error, "more than one writable segment");
        elf->data = *h;
    } else if (h->p_filesz != h->p_memsz) {
        return malformed(error, "a read-only segment larger than its bytes");
    }
    elf->load[elf->n_load++] = *h;
    return MEDIA_OK;
}

static int take_segments(struct kf_elf *elf, const kf_ehdr *e, MediaError *error) {
    kf_phdr relro = {0}, stack = {0};
    for (uint32_t k = 0; k < e->e_phnum; k++) {
        kf_phdr h;
        memcpy(&h, elf->file + e->e_phoff + k * sizeof h, sizeof h);
        int code = MEDIA_OK;
        switch (h.p_type) {
        case PT_LOAD: code = take_load(elf, &h, error); break;
        case PT_DYNAMIC: elf->dynamic = h; break;
        case PT_GNU_RELRO: relro = h; break;
        case PT_GNU_STACK: stack = h; break;
        case PT_NULL:
        case PT_NOTE:
        case PT_PHDR:
        case PT_GNU_PROPERTY:
        case KF_PT_UNUSED: break;
        default: code = denied(error, "a segment of a kind that is not loaded (interpreter, thread-local, unknown)");
        }
        if (code) return code;
    }
    if (stack.p_type != PT_GNU_STACK || (stack.p_flags & PF_X)) return denied(error, "an executable stack");
    if (!elf->text.p_memsz || !elf->data.p_memsz || !elf->dynamic.p_filesz)
        return malformed(error, "code, table or dynamic section missing");
    if (relro.p_vaddr > elf->data.p_vaddr ||
        !kf_within(elf->data.p_vaddr - relro.p_vaddr, elf->data.p_memsz, relro.p_memsz))
        return denied(error, "data that stays writable");
    return MEDIA_OK;
}

/* File offset of [address, address + bytes) in a segment that is not executable; 0 = there is none. */
static uint64_t offset_of(const struct kf_elf *elf, uint64_t address, uint64_t bytes) {
    for (uint32_t k = 0; k < elf->n_load; k++) {
        const kf_phdr *h = &elf->load[k];
        if (!(h->p_flags & PF_X) && address >= h->p_vaddr && kf_within(address - h->p_vaddr, bytes, h->p_filesz))
            return h->p_offset + (address - h->p_vaddr);
    }
    return 0;
}

static int take_dynamic(struct kf_elf *elf, MediaError *error) {
    uint64_t bytes = 0, entry = 0, at = offset_of(elf, elf->dynamic.p_vaddr, elf->dynamic.p_filesz);
    int ended = 0;
    if (!at) return malformed(error, "dynamic section out of the segments");
    for (uint64_t k = 0; k < elf->dynamic.p_filesz / sizeof(kf_dyn) && !ended; k++) {
        kf_dyn d;
        memcpy(&d, elf->file + at + k * sizeof d, sizeof d);
        switch (d.d_tag) {
        case DT_NULL: ended = 1; break;
        case KF_RELA ? DT_RELA : DT_REL: elf->relocations = d.d_un.d_ptr; break;
        case KF_RELA ? DT_RELASZ : DT_RELSZ: bytes = d.d_un.d_val; break;
        case KF_RELA ? DT_RELAENT : DT_RELENT: entry = d.d_un.d_val; break;
        case 30: /* FLAGS */
            if (d.d_un.d_val & ~(uint64_t)8) return denied(error, "dynamic flags other than NOW"); /* 8 = DF_BIND_NOW */
            break;
        case DT_SONAME:
        case DT_HASH:
        case DT_STRTAB:
        case DT_SYMTAB:
        case DT_STRSZ:
        case DT_SYMENT:
        case 0x6ffffef5 /* GNU_HASH */:
        case 0x6ffffff9 /* RELACOUNT */:
        case 0x6ffffffa /* RELCOUNT */:
        case 0x6ffffffb /* FLAGS_1 */:
        case 24 /* BIND_NOW */:
        case KF_DT_UNUSED1:
        case KF_DT_UNUSED2: break;
        default:
            return denied(error,
                          "a dynamic entry that is not granted (needed library, start function, search path, ...)");
        }
    }
    if (!ended) return malformed(error, "dynamic section without an end");
    if (bytes % sizeof(kf_relocation) || (bytes && entry != sizeof(kf_relocation)))
        return malformed(error, "relocations out of form");
    elf->n_relocations = bytes / sizeof(kf_relocation);
    if (bytes && !offset_of(elf, elf->relocations, bytes)) return malformed(error, "relocations out of the segments");
    return MEDIA_OK;
}

int kf_elf_read(const uint8_t *file, size_t size, struct kf_elf *elf, MediaError *error) {
    kf_ehdr e;
    memset(elf, 0, sizeof *elf);
    elf->file = file;
    elf->size = size;
    if (size >= sizeof e) memcpy(&e, file, sizeof e);
    else memset(&e, 0, sizeof e);
    int code = check_header(&e, size, error);
    if (!code) code = take_segments(elf, &e, error);
    if (!code) code = take_dynamic(elf, error);
    elf->entry = e.e_entry;
    return code;
}

int kf_elf_relocate(const struct kf_elf *elf, uint8_t *data, uint64_t base, MediaError *error) {
    const kf_phdr *d = &elf->data;
    const size_t word = sizeof(uintptr_t);
    uint64_t at =
        elf->n_relocations ? offset_of(elf, elf->relocations, elf->n_relocations * sizeof(kf_relocation)) : 0;
    for (uint64_t k = 0; k < elf->n_relocations; k++) {
        kf_relocation r;
        uintptr_t value;
        memcpy(&r, elf->file + at + k * sizeof r, sizeof r);
        if (KF_R_TYPE(r.r_info) != kf_cpu_relative() || KF_R_SYMBOL(r.r_info))
            return denied(error, "a relocation that is not RELATIVE");
        if (r.r_offset < d->p_vaddr || !kf_within(r.r_offset - d->p_vaddr, word, d->p_filesz) || r.r_offset % word)
            return denied(error, "a relocation outside the data");
        uint8_t *place = data + (size_t)(r.r_offset - d->p_vaddr);
#if KF_RELA
        value = (uintptr_t)r.r_addend;
#else
        memcpy(&value, place, word);
#endif
        if (value >= elf->span) return malformed(error, "a relocation that points out of the object");
        value += (uintptr_t)base;
        memcpy(place, &value, word);
    }
    return MEDIA_OK;
}
