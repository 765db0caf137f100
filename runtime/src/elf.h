/* What the loader needs of an ELF file, checked and copied out of it. */
#ifndef KF_ELF_H
#define KF_ELF_H

#include <linux/elf.h>
#include <stddef.h>
#include <stdint.h>

#include "media_engine.h"

/* Largest page of any target: segments in different pages of this size never share one. */
#define KF_PAGE 65536u
#define KF_MAX_SEGMENTS 16u
#define KF_MAX_SPAN (1u << 30)

typedef Elf64_Ehdr kf_ehdr;
typedef Elf64_Phdr kf_phdr;
typedef Elf64_Dyn kf_dyn;
typedef Elf64_Rela kf_rela;

struct kf_elf {
    const uint8_t *file;
    size_t size;
    kf_phdr load[KF_MAX_SEGMENTS];
    uint32_t n_load;
    kf_phdr text, data; /* the one executable and the one writable of load */
    kf_phdr dynamic;
    uint64_t rela, n_rela; /* address and number of relocations */
    uint64_t entry;
    uint64_t span; /* of all segments, a multiple of KF_PAGE */
};

int kf_elf_read(const uint8_t *file, size_t size, struct kf_elf *elf, MediaError *error);

/* Writes the relocated words into data, a copy of the bytes of elf->data that will live at base + elf->data.p_vaddr. */
int kf_elf_relocate(const struct kf_elf *elf, uint8_t *data, uint64_t base, MediaError *error);

#endif
