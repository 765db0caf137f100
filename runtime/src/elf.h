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

#if UINTPTR_MAX == UINT64_MAX
#define KF_ELF_CLASS ELFCLASS64
#define KF_R_TYPE(info) ((uint32_t)(info))
#define KF_R_SYMBOL(info) ((uint32_t)((info) >> 32))
typedef Elf64_Ehdr kf_ehdr;
typedef Elf64_Phdr kf_phdr;
typedef Elf64_Dyn kf_dyn;
typedef Elf64_Rela kf_rela;
typedef Elf64_Rel kf_rel;
#else
#define KF_ELF_CLASS ELFCLASS32
#define KF_R_TYPE(info) ((uint32_t)(info) & 255)
#define KF_R_SYMBOL(info) ((uint32_t)(info) >> 8)
typedef Elf32_Ehdr kf_ehdr;
typedef Elf32_Phdr kf_phdr;
typedef Elf32_Dyn kf_dyn;
typedef Elf32_Rela kf_rela;
typedef Elf32_Rel kf_rel;
#endif

/* 32-bit Arm keeps the addend of a relocation in the word that is relocated. */
#if defined(__arm__)
#define KF_RELA 0
typedef kf_rel kf_relocation;
#else
#define KF_RELA 1
typedef kf_rela kf_relocation;
#endif

/* What a machine's linker adds and nothing here uses: descriptions of unwinding and of the instruction set; marks that
 * the (absent) calls through stubs are protected.  KF_NO_NUMBER matches nothing. */
#define KF_NO_NUMBER 0xffffffffu
#if defined(__arm__)
#define KF_PT_UNUSED 0x70000001u /* PT_ARM_EXIDX */
#elif defined(__riscv)
#define KF_PT_UNUSED 0x70000003u /* PT_RISCV_ATTRIBUTES */
#else
#define KF_PT_UNUSED KF_NO_NUMBER
#endif
#if defined(__aarch64__)
#define KF_DT_UNUSED1 0x70000001u /* DT_AARCH64_BTI_PLT */
#define KF_DT_UNUSED2 0x70000003u /* DT_AARCH64_PAC_PLT */
#else
#define KF_DT_UNUSED1 KF_NO_NUMBER
#define KF_DT_UNUSED2 (KF_NO_NUMBER - 1)
#endif

struct kf_elf {
    const uint8_t *file;
    size_t size;
    kf_phdr load[KF_MAX_SEGMENTS];
    uint32_t n_load;
    kf_phdr text, data; /* the one executable and the one writable of load */
    kf_phdr dynamic;
    uint64_t relocations, n_relocations; /* address and number */
    uint64_t entry;
    uint64_t span; /* of all segments, a multiple of KF_PAGE */
};

int kf_elf_read(const uint8_t *file, size_t size, struct kf_elf *elf, MediaError *error);

/* Writes the relocated words into data, a copy of the bytes of elf->data that will live at base + elf->data.p_vaddr. */
int kf_elf_relocate(const struct kf_elf *elf, uint8_t *data, uint64_t base, MediaError *error);

#endif
