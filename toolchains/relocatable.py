"""Relocatable ELF files, read with pyelftools: the names that they have and lack, and what a linker took of one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from kernelfarm import canonical, digest
from kernelfarm.digest import Digest

_LOCAL = "STB_LOCAL"
_NO_BYTES = "SHT_NOBITS"
_UNDEFINED = "SHN_UNDEF"
_MADE_ANEW = ".eh_frame"
"""The linker writes this one out of its pieces, and leaves out those of functions that it leaves out."""


def names(paths: Iterable[Path]) -> tuple[frozenset[str], frozenset[str]]:
    """The names that objects define for others, and those that they need and no one of them defines."""
    defined: set[str] = set()
    needed: set[str] = set()
    for path in paths:
        with path.open("rb") as stream:
            for table in ELFFile(stream).iter_sections():
                if isinstance(table, SymbolTableSection):
                    for symbol in table.iter_symbols():
                        if symbol.name and symbol["st_info"]["bind"] != _LOCAL:
                            (needed if symbol["st_shndx"] == _UNDEFINED else defined).add(symbol.name)
    return frozenset(defined), frozenset(needed - defined)


def kept(path: Path, names: Collection[str]) -> Digest:
    """Digest of what a linker took of an object: the sections with these names, global symbols in them, relocations.

    The rest of the file is not in the product, and two compiles need not agree on it.

    Sections of strings and constants that the linker merges with those of other objects count too: its map has them
    under no object's name. What a relocation points to counts by its place, or where it is elsewhere by its name: names
    of local symbols reach no product.
    """
    if not names:
        return canonical.digest_of([])
    with path.open("rb") as stream:
        file = ELFFile(stream)
        sections = list(file.iter_sections())
        taken = {index for index, section in enumerate(sections) if _is_taken(section, names)}
        targets = list(_targets(sections))
        relocations = {
            section["sh_info"]: [_relocation(one, targets) for one in section.iter_relocations()]
            for section in sections
            if isinstance(section, RelocationSection)
            and section["sh_info"] in taken
            and sections[section["sh_info"]].name != _MADE_ANEW
        }
        found = [
            [sections[index].name, sections[index]["sh_size"], _content(sections[index]), relocations.get(index, [])]
            for index in sorted(taken)
        ]
        return canonical.digest_of({"sections": found, "symbols": sorted(_symbols(sections, taken))})


def _is_taken(section: Section, names: Collection[str]) -> bool:
    flags = section["sh_flags"]
    return bool(flags & SH_FLAGS.SHF_ALLOC) and (section.name in names or bool(flags & SH_FLAGS.SHF_MERGE))


def _content(section: Section) -> str:
    empty = section["sh_type"] == _NO_BYTES or section.name == _MADE_ANEW
    return "" if empty else digest.of_bytes(section.data())


def _targets(sections: list[Section]) -> Iterator[tuple[str, int]]:
    """Of each symbol, by its number: the section and the place in it, or the name and -1."""
    for table in sections:
        if isinstance(table, SymbolTableSection):
            for symbol in table.iter_symbols():
                where = symbol["st_shndx"]
                inside = isinstance(where, int)
                yield (sections[where].name, symbol["st_value"]) if inside else (symbol.name, -1)


def _relocation(one: Any, targets: list[tuple[str, int]]) -> list[str]:
    numbers = (one["r_offset"], one["r_info_type"], one["r_addend"] if one.is_RELA() else 0)
    name, place = targets[one["r_info_sym"]]
    return [*map(str, numbers), name, str(place)]


def _symbols(sections: list[Section], taken: Collection[int]) -> Iterator[tuple[str, str, str]]:
    for table in sections:
        if isinstance(table, SymbolTableSection):
            for symbol in table.iter_symbols():
                if symbol["st_shndx"] in taken and symbol["st_info"]["bind"] != _LOCAL:
                    yield symbol.name, sections[symbol["st_shndx"]].name, str(symbol["st_value"])
