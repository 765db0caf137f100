"""Facts of a kernel object, read from its bytes with pyelftools. Nothing here trusts how the file was made."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import NoteSegment

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains.machines import MACHINES, Machine
from toolchains.traces import traces

TILE_TYPE = 1774936839
"""KCFI id of void(void*, int64_t, int64_t) with normalised integers, the same on every target."""
TABLE = "kf_table"
_TABLE_MAGIC = 0x4B544631
_TABLE = struct.Struct("<14I3Q2I")
_FUNCTION = struct.Struct("<QIIQ")
_R, _W, _X = 4, 2, 1
_ELF_32, _ELF_64, _ET_REL = b"\x7fELF\x01\x01", b"\x7fELF\x02\x01", 1  # little-endian
_LARGEST = 1 << 30  # of a segment in memory: KF_MAX_SPAN of the loader
_MALFORMED = (  # what pyelftools raises where a file is not what it says
    ELFError,
    ConstructError,
    struct.error,
    AssertionError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
_FLAGS_NOW, _FLAGS_1_NOW, _FLAGS_TEXTREL = 8, 1, 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A PT_LOAD: addresses and sizes in bytes, access such as "r-x"."""

    address: int
    offset: int
    file_size: int
    memory_size: int
    access: str

    def covers(self, address: int, size: int = 1) -> bool:
        """Whether the range lies in the bytes that the file gives."""
        return self.address <= address and address + size <= self.address + self.file_size


@dataclass(frozen=True, slots=True)
class Entry:
    """A function of the entry table: what the table says and what stands around its code."""

    name_hash: int
    type_id: int
    address: int
    stored_id: int
    """The four bytes before the code; 0 where they are outside the code."""
    landing_pad: bool


@dataclass(frozen=True, slots=True)
class Elf:
    """A linked file. `relro` is (address, size).

    `foreign_relocations` are those that are not RELATIVE inside RELRO, and symbols of which a loader makes relocations
    by running code (STT_GNU_IFUNC) or by a rule of its own.
    """

    digest: Digest
    machine: str
    segments: tuple[Segment, ...]
    relro: tuple[int, int] | None
    stack_executable: bool
    now: bool
    text_relocations: bool
    search_paths: tuple[str, ...]
    needed: tuple[str, ...]
    exports: tuple[str, ...]
    undefined: tuple[str, ...]
    relocations: int
    foreign_relocations: tuple[str, ...]
    entry_point: int
    table_address: int | None
    entries: tuple[Entry, ...]
    stray_ids: tuple[int, ...]
    """Addresses in executable bytes, at any alignment, where the id stands without an entry of the table behind it."""
    uncovered_code: int
    """Executable bytes, other than zeros, in no executable section: a disassembler would not see them."""
    named_code: int
    """Symbols inside code: a disassembler begins anew at each, or takes what follows for data."""
    notes: tuple[str, ...]
    traces: tuple[str, ...]
    """What names a builder, outside of the code (`toolchains.traces`)."""
    named: tuple[tuple[str, int], ...] = ()
    """(name, address) of what is exported."""
    entered: tuple[int, ...] = ()
    """Where its code can be entered from outside: what is exported, the entry point, and code that data points to."""
    fixed: bool = False
    """It runs at one address only."""
    interpreter: bool = False
    """It asks for a program that loads it."""


def is_object(data: bytes, machine: str) -> bool:
    """Whether the bytes begin as a relocatable ELF file of a machine: a linker takes text for a script of its own."""
    kind = _ELF_32 if MACHINES[machine].bits == 32 else _ELF_64
    return data[:6] == kind and data[16:20] == struct.pack("<2H", _ET_REL, MACHINES[machine].elf_machine)


def read(path: Path) -> Elf:
    """Facts of a file; raises `FarmError` ELF_INVALID when it is of no known machine or its table is malformed."""
    data = path.read_bytes()
    try:
        return _read(data, ELFFile(BytesIO(data)), path.name)
    except _MALFORMED as reason:
        raise FarmError(
            Code.ELF_INVALID, f"{path.name} is not a kernel object", str(reason), detail={"file": path.name}
        ) from reason


def _read(data: bytes, file: Any, name: str) -> Elf:
    _require_inside(file, len(data))
    number = file.header["e_machine"]
    numbered = {machine.elf_machine: key for key, machine in MACHINES.items()}
    key = numbered.get(struct.unpack_from("<H", data, 18)[0])
    if key is None or not file.little_endian or file.elfclass != MACHINES[key].bits:
        raise FarmError(Code.ELF_INVALID, f"{name} is not a kernel object", f"machine {number}", detail={"file": name})
    machine = MACHINES[key]
    segments = tuple(_segment(s) for s in file.iter_segments() if s["p_type"] == "PT_LOAD")
    relro = next(((s["p_vaddr"], s["p_memsz"]) for s in file.iter_segments() if s["p_type"] == "PT_GNU_RELRO"), None)
    stack = next((s["p_flags"] for s in file.iter_segments() if s["p_type"] == "PT_GNU_STACK"), _X)
    dynamic = next((s for s in file.iter_segments() if isinstance(s, DynamicSegment)), None)
    tags = [(tag.entry.d_tag, tag.entry.d_val, tag) for tag in dynamic.iter_tags()] if dynamic else []
    flags = {tag: value for tag, value, _ in tags}
    symbols = list(dynamic.iter_symbols()) if dynamic else []
    exported = {s.name: s["st_value"] for s in symbols if s["st_shndx"] != "SHN_UNDEF"}
    relocations = _relocations(dynamic)
    relocated = {
        at: addend if machine.rela else _word(data, segments, at, machine)
        for at, kind, addend in relocations
        if kind == machine.relative
    }
    table = exported.get(TABLE)
    pointers = {*exported.values(), *relocated.values(), file.header["e_entry"], *_initial(flags)} - {0}
    outside = _outside_code(data, segments, table)
    entries = _entries(data, segments, relocated, table, machine) if table is not None else ()
    return Elf(
        digest=digest.of_bytes(data),
        machine=key,
        segments=segments,
        relro=relro,
        stack_executable=bool(stack & _X),
        now=bool(flags.get("DT_FLAGS", 0) & _FLAGS_NOW or flags.get("DT_FLAGS_1", 0) & _FLAGS_1_NOW),
        text_relocations="DT_TEXTREL" in flags or bool(flags.get("DT_FLAGS", 0) & _FLAGS_TEXTREL),
        search_paths=tuple(sorted(_text(t) for tag, _, t in tags if tag in ("DT_RPATH", "DT_RUNPATH"))),
        needed=tuple(sorted(t.needed for tag, _, t in tags if tag == "DT_NEEDED")),
        exports=tuple(sorted(exported)),
        undefined=tuple(sorted(s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name)),
        relocations=len(relocations),
        foreign_relocations=(
            *(f"type {kind} at {at:#x}" for at, kind, _ in relocations if not _is_own(at, kind, machine, relro)),
            *(f"symbol {s.name} of type {s['st_info']['type']}" for s in symbols if not _is_plain(s)),
        ),
        entry_point=file.header["e_entry"],
        table_address=table,
        entries=entries,
        stray_ids=_stray_ids(data, segments, {entry.address - 4 for entry in entries}),
        uncovered_code=_uncovered(data, segments, file),
        named_code=_named_code(file, segments),
        notes=_notes(file),
        traces=traces(outside, _sections(data, file)),
        named=tuple(sorted(exported.items())),
        entered=tuple(sorted(at for at in pointers if any("x" in s.access and s.covers(at) for s in segments))),
        fixed=file.header["e_type"] != "ET_DYN",
        interpreter=any(s["p_type"] == "PT_INTERP" for s in file.iter_segments()),
    )


def _initial(flags: dict[Any, int]) -> set[int]:
    """What a loader calls by address; the arrays are read as relocated words."""
    return {flags[tag] for tag in ("DT_INIT", "DT_FINI") if tag in flags}


def _require_inside(file: Any, size: int) -> None:
    """Raises `ValueError` for a part that the file does not hold: reading it could take all memory and all day."""
    parts = [(s["p_offset"], s["p_filesz"], s["p_memsz"]) for s in file.iter_segments()]
    for number in range(file.num_sections()):
        header = file._get_section_header(number)
        if header["sh_type"] != "SHT_NOBITS":
            parts.append((header["sh_offset"], header["sh_size"], header["sh_size"]))
    if any(offset + held > size or memory > _LARGEST for offset, held, memory in parts):
        raise ValueError("a segment or section lies outside the file")


def _named_code(file: Any, segments: Iterable[Segment]) -> int:
    """Symbols that point into code, or at a section of it: llvm-objdump shows what lies behind one of data as data."""
    code = [s for s in segments if "x" in s.access]
    named = {number for number, section in enumerate(file.iter_sections()) if section["sh_flags"] & 4}  # SHF_EXECINSTR
    return sum(
        symbol["st_shndx"] in named or any(s.address <= symbol["st_value"] < s.address + s.memory_size for s in code)
        for section in file.iter_sections()
        if isinstance(section, SymbolTableSection)
        for symbol in section.iter_symbols()
    )


def _sections(data: bytes, file: Any) -> list[tuple[str, bytes]]:
    """(name, bytes as they lie in the file) of every section that has any."""
    held = [section for section in file.iter_sections() if section["sh_type"] != "SHT_NOBITS"]
    return [(s.name, data[s["sh_offset"] : s["sh_offset"] + s["sh_size"]]) for s in held]


def _segment(segment: Any) -> Segment:
    flags = segment["p_flags"]
    access = "".join(letter if flags & bit else "-" for letter, bit in (("r", _R), ("w", _W), ("x", _X)))
    return Segment(segment["p_vaddr"], segment["p_offset"], segment["p_filesz"], segment["p_memsz"], access)


def _text(tag: Any) -> str:
    return str(getattr(tag, "runpath", None) or getattr(tag, "rpath", ""))


def _relocations(dynamic: Any) -> list[tuple[int, int, int]]:
    """(address, type, addend) of every relocation that a loader would apply."""
    tables = dynamic.get_relocation_tables() if dynamic else {}
    return [
        (r["r_offset"], r["r_info_type"], r["r_addend"] if r.is_RELA() else 0)
        for _, table in sorted(tables.items())
        for r in table.iter_relocations()
    ]


def _is_plain(symbol: Any) -> bool:
    """Whether the value of a symbol is the address of what it names."""
    return symbol["st_info"]["type"] in ("STT_NOTYPE", "STT_OBJECT", "STT_FUNC")


def _is_own(address: int, kind: int, machine: Machine, relro: tuple[int, int] | None) -> bool:
    if kind != machine.relative or relro is None:
        return False
    return relro[0] <= address and address + machine.bits // 8 <= relro[0] + relro[1]


def _word(data: bytes, segments: Iterable[Segment], address: int, machine: Machine) -> int:
    return int.from_bytes(content(data, segments, address, machine.bits // 8), "little")


def padding(data: bytes, facts: Elf, word: int) -> list[int]:
    """Addresses of the zero words, three at most, right before `word`: what aligned the next object to 16 bytes."""
    found: list[int] = []
    for at in (word - 4, word - 8, word - 12):
        if not any(s.covers(at, 4) for s in facts.segments) or content(data, facts.segments, at, 4) != bytes(4):
            break
        found.append(at)
    return found


def content(data: bytes, segments: Iterable[Segment], address: int, size: int) -> bytes:
    """Bytes of a file at an address; raises `ValueError` where no segment holds them."""
    for segment in segments:
        if segment.covers(address, size):
            start = segment.offset + address - segment.address
            return data[start : start + size]
    raise ValueError(f"{size} bytes at {address:#x} are outside the file")


def code(data: bytes, segments: Iterable[Segment]) -> list[tuple[int, bytes]]:
    """(address, bytes) of what a loader makes executable, whatever the sections say."""
    return [(s.address, data[s.offset : s.offset + s.file_size]) for s in segments if "x" in s.access]


def _entries(
    data: bytes, segments: tuple[Segment, ...], relocated: dict[int, int], table: int, machine: Machine
) -> tuple[Entry, ...]:
    head = _TABLE.unpack(content(data, segments, table, _TABLE.size))
    if head[0] != _TABLE_MAGIC:
        raise ValueError("its table has no magic number")
    count, start = head[4], table + head[8]
    return tuple(_entry(data, segments, relocated, start + k * _FUNCTION.size, machine) for k in range(count))


def _entry(data: bytes, segments: tuple[Segment, ...], relocated: dict[int, int], at: int, machine: Machine) -> Entry:
    name_hash, type_id, _, in_place = _FUNCTION.unpack(content(data, segments, at, _FUNCTION.size))
    address = relocated.get(at + 16, in_place)
    code = [segment for segment in segments if "x" in segment.access]
    stored = (
        struct.unpack("<I", content(data, code, address - 4, 4))[0]
        if any(s.covers(address - 4, 4) for s in code)
        else 0
    )
    lands = any(s.covers(address, 4) for s in code) and content(data, code, address, 4) in machine.landing_pads
    return Entry(name_hash, type_id, address, stored, lands)


def _stray_ids(data: bytes, segments: Iterable[Segment], wanted: set[int]) -> tuple[int, ...]:
    pattern = re.compile(re.escape(struct.pack("<I", TILE_TYPE)))
    found = {address + match.start() for address, held in code(data, segments) for match in pattern.finditer(held)}
    return tuple(sorted(found - wanted))


def _uncovered(data: bytes, segments: Iterable[Segment], file: Any) -> int:
    seen = bytearray(data)
    for section in file.iter_sections():
        if section["sh_flags"] & 4 and section["sh_type"] == "SHT_PROGBITS":  # SHF_EXECINSTR
            start, size = section["sh_offset"], section["sh_size"]
            seen[start : start + size] = bytes(len(seen[start : start + size]))
    return sum(len(held) - held.count(0) for _, held in code(bytes(seen), segments))


def _outside_code(data: bytes, segments: Iterable[Segment], table: int | None) -> bytes:
    """The file without code and without the table's strings: they are the model's names and may look like paths."""
    kept = bytearray(data)
    for segment in segments:
        if "x" in segment.access:
            kept[segment.offset : segment.offset + segment.file_size] = bytes(segment.file_size)
        if table is not None and segment.covers(table, _TABLE.size):
            start = segment.offset + table - segment.address
            head = _TABLE.unpack_from(data, start)
            place = slice(start + head[12], min(start + head[12] + head[13], len(kept)))
            kept[place] = bytes(len(kept[place]))
    return bytes(kept)


_NOTE_BITS = {
    "GNU_PROPERTY_AARCH64_FEATURE_1_AND": ((1, "bti"), (2, "pac")),
    "GNU_PROPERTY_X86_FEATURE_1_AND": ((1, "ibt"), (2, "shstk")),
}


def _notes(file: Any) -> tuple[str, ...]:
    """Control-flow features that the property note switches on."""
    found = set()
    for segment in file.iter_segments():
        if not isinstance(segment, NoteSegment):
            continue
        for note in segment.iter_notes():
            properties = note["n_desc"] if note["n_type"] == "NT_GNU_PROPERTY_TYPE_0" else ()
            for item in properties:
                found |= {name for bit, name in _NOTE_BITS.get(item["pr_type"], ()) if item["pr_data"] & bit}
    return tuple(sorted(found))


def imports(data: bytes, library: str) -> list[tuple[str, str]]:
    """Names that a file asks of a shared library it is linked with: (version, name), sorted.

    A name without a version ("") may be meant for any library of the file. Empty for a file that is not linked with it;
    raises what pyelftools does for a malformed one.
    """
    file = ELFFile(BytesIO(data))
    dynamic = file.get_section_by_name(".dynamic")
    if dynamic is None or library not in [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]:
        return []
    needs, versions = (file.get_section_by_name(name) for name in (".gnu.version_r", ".gnu.version"))
    names: dict[object, str] = {"VER_NDX_LOCAL": "", "VER_NDX_GLOBAL": ""}
    for other, parts in needs.iter_versions() if needs else ():
        if other.name == library:
            names |= {part["vna_other"]: part.name for part in parts}
    found = set()
    for index, symbol in enumerate(file.get_section_by_name(".dynsym").iter_symbols()):
        version = versions.get_symbol(index)["ndx"] if versions else "VER_NDX_GLOBAL"
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name and version in names:
            found.add((names[version], symbol.name))
    return sorted(found)
