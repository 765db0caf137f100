"""The hardening gate: what the target demands, held against what the linked bytes say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError
from toolchains import assembler, disasm, elf, system_calls, x86
from toolchains.disasm import CodeFacts
from toolchains.elf import TABLE, TILE_TYPE, Elf, Entry
from toolchains.instructions import CLASSES
from toolchains.machines import MACHINES
from toolchains.properties import ProductProperty, Property
from toolchains.taken import Taken
from toolchains.target import Target

_PAGE = 65536
_UNDIVIDED = 32
"""Bytes of the widest registers of which every block fills a whole one."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the bytes of a kernel object say. `names` gives the functions of the table by the hash of their symbol."""

    elf: Elf
    code: CodeFacts
    names: tuple[tuple[int, str], ...] = ()
    path: Path | None = None
    """Where the bytes lie, for the disassembly with the features of a target; facts without it prove no feature set."""
    wide: bool = False
    """The layout is known to hold values that fill more than half of its blocks, which half a register cannot serve."""

    def function_at(self, address: int) -> str:
        """The function of the table that an address lies in, with the distance to its start: "group_conv_3+0x1c"."""
        before = [entry for entry in self.elf.entries if entry.address <= address]
        if not before:
            return f"{address:#x}"
        entry = max(before, key=lambda e: e.address)
        return f"{self.name_of(entry)}+{address - entry.address:#x}"

    def name_of(self, entry: Entry) -> str:
        """Symbol of an entry, or its hash where the symbol is not known."""
        return dict(self.names).get(entry.name_hash, f"function {entry.name_hash:016x}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A property: whether it holds, the evidence or the fault, and the function and offset (address) of a fault."""

    property: Property | ProductProperty
    holds: bool
    evidence: str
    function: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Product:
    """The hardening of the library or the program that a payload ships, as `toolchains.products` reads it."""

    file: str
    object: str
    findings: tuple[Finding, ...]
    impossible: tuple[Property, ...]
    functions: int
    """How many are reached from where the file can be entered."""
    instructions: int


@dataclass(frozen=True, slots=True)
class Report:
    """The hardening of kernels and products as read from their bytes: the payload's hardening.json."""

    SCHEMA: ClassVar[str] = "hardening/2"

    target: str
    object: str
    findings: tuple[Finding, ...]
    impossible: tuple[Property, ...]
    entries: int
    instructions: int
    vectors: tuple[disasm.VectorUse, ...]
    products: tuple[Product, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON object, schema "hardening/2"."""
        value: dict[str, Any] = canonical.to_json(self)
        return value


def inspect(path: Path, symbols: Iterable[str] = (), *, wide: bool = False) -> Facts:
    """Facts of a kernel object; `symbols` name its functions in messages, `wide` is that of `Facts`.

    Raises `FarmError` ELF_INVALID.
    """
    facts = elf.read(path)
    names = tuple(sorted((fnv1a(symbol), symbol) for symbol in set(symbols)))
    return Facts(facts, _scan(path, facts), names, path, wide)


def _scan(path: Path, facts: Elf, target: Target | None = None) -> CodeFacts:
    """The disassembly without the type ids and the zeros before them, which stand in the code but never run."""
    words = [entry.address - 4 for entry in facts.entries if entry.stored_id == TILE_TYPE]
    data = path.read_bytes()
    words += [at for word in words for at in elf.padding(data, facts, word)]
    code, entries = elf.code(data, facts.segments), [entry.address for entry in facts.entries]
    return disasm.scan(code, facts.machine, target, skip=words, entries=entries)


def check(wanted: Property, target: Target, facts: Facts) -> Finding:
    """One property."""
    return _CHECKS[wanted](target, facts)


def report(target: Target, facts: Facts) -> Report:
    """Every property that the target lists as required, found or not."""
    findings = tuple(_CHECKS[wanted](target, facts) for wanted in sorted(target.hardening.required))
    return Report(
        target=target.name,
        object=facts.elf.digest,
        findings=findings,
        impossible=target.hardening.impossible,
        entries=len(facts.elf.entries),
        instructions=facts.code.instructions,
        vectors=facts.code.vectors,
    )


def require(target: Target, facts: Facts) -> Report:
    """The report when every required property holds; else HARDENING_MISSING names property, function and offset."""
    found = report(target, facts)
    require_all(found.findings, f"kernels for {target.name} lack", {"target": target.name})
    return found


def require_all(findings: Iterable[Finding], lacking: str, detail: Mapping[str, Any]) -> None:
    """Raise HARDENING_MISSING for the first finding that does not hold; `lacking` begins what the error says."""
    for finding in findings:
        if not finding.holds:
            place = f" in {finding.function}" if finding.function else ""
            raise FarmError(
                Code.HARDENING_MISSING,
                f"{lacking} {finding.property.value}{place}",
                finding.evidence,
                detail={
                    **detail,
                    "property": finding.property.value,
                    "function": finding.function,
                    "offset": finding.offset,
                },
            )


def fnv1a(symbol: str) -> int:
    """FNV-1a 64 of a symbol's UTF-8 bytes (Fowler, Noll, Vo): name_hash of the entry table."""
    value = 0xCBF29CE484222325
    for byte in symbol.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def _first(property_: Property, faults: Iterable[tuple[int, str]], facts: Facts, evidence: str) -> Finding:
    """Holds without a fault; else the first fault (address, text) decides what is reported."""
    for address, text in sorted(faults):
        return Finding(property_, False, text, facts.function_at(address), address)
    return Finding(property_, True, evidence)


def _plain(property_: Property, holds: bool, evidence: str, fault: str) -> Finding:
    return Finding(property_, holds, evidence if holds else fault)


def _kcfi(_: Target, facts: Facts) -> Finding:
    entries = facts.elf.entries
    faults = [(e.address, f"the table says type {e.type_id:#x}") for e in entries if e.type_id != TILE_TYPE]
    faults += [(e.address, f"{e.address:#x} is no multiple of four") for e in entries if e.address % 4]
    faults += [
        (e.address, f"{e.stored_id:#x} instead of the type id stands before the code")
        for e in entries
        if e.stored_id != TILE_TYPE
    ]
    faults += [(at, f"the type id stands at {at:#x} without an entry behind it") for at in facts.elf.stray_ids]
    if not entries:
        return Finding(Property.KCFI, False, "there is no entry table")
    return _first(
        Property.KCFI, faults, facts, f"type id {TILE_TYPE} before each of {len(entries)} entries and nowhere else"
    )


def _landing_pads(_: Target, facts: Facts) -> Finding:
    faults = [(e.address, f"no landing pad at {e.address:#x}") for e in facts.elf.entries if not e.landing_pad]
    return _first(Property.LANDING_PADS, faults, facts, f"at each of {len(facts.elf.entries)} entries")


def _note(property_: Property, edge: int) -> Callable[[Target, Facts], Finding]:
    def check(_: Target, facts: Facts) -> Finding:
        notes = MACHINES[facts.elf.machine].notes
        wanted = notes[edge] if notes else "a note"
        found = ", ".join(facts.elf.notes) or "no note"
        return _plain(property_, wanted in facts.elf.notes, wanted, f"{wanted} is wanted, the file has {found}")

    return check


def _no_indirect_branch(_: Target, facts: Facts) -> Finding:
    faults = [(branch.address, f"{branch.text} at {branch.address:#x}") for branch in facts.code.indirect]
    faults += [(at, f"bytes at {at:#x} are no instruction") for at in facts.code.undecoded]
    faults += [(each.at, f"the address of code at {each.to:#x} is taken at {each.at:#x}") for each in _taken(facts)]
    if facts.elf.named_code:
        fault = f"{facts.elf.named_code} symbols in code, which could hide it from a disassembler"
        return Finding(Property.NO_INDIRECT_BRANCH, False, fault)
    if facts.elf.uncovered_code:
        return Finding(Property.NO_INDIRECT_BRANCH, False, f"{facts.elf.uncovered_code} bytes of code in no section")
    return _first(Property.NO_INDIRECT_BRANCH, faults, facts, f"none in {facts.code.instructions} instructions")


def _taken(facts: Facts) -> list[Taken]:
    """Addresses of code that kernels compute. They have no use for one: only the runtime calls, and by the table alone.

    Where constants stand among the code, what nothing reaches is one, or cannot run.
    """
    code, runs = facts.code, frozenset(facts.code.addresses)
    return [each for each in code.taken if each.to in runs or not MACHINES[facts.elf.machine].literals]


def sealed(_: Target, facts: Facts) -> Finding:
    """Whether all data is read-only after relocation, on pages of 64 KiB."""
    relro = facts.elf.relro
    if relro is None:
        return Finding(Property.RELRO, False, "no segment is read-only after relocation")
    start, end = relro[0], relro[0] + relro[1]
    left = [
        s
        for s in facts.elf.segments
        if "w" in s.access and not (start <= s.address and s.address + s.memory_size <= end)
    ]
    if left:
        return Finding(Property.RELRO, False, f"data at {left[0].address:#x} stays writable", offset=left[0].address)
    if start % _PAGE or end % _PAGE:
        return Finding(Property.RELRO, False, f"{start:#x}..{end:#x} does not fill pages of 64 KiB", offset=start)
    return Finding(Property.RELRO, True, f"{start:#x}..{end:#x}")


def _relro(target: Target, facts: Facts) -> Finding:
    found, table = sealed(target, facts), facts.elf.table_address
    if found.holds and facts.elf.relro is not None:
        start, size = facts.elf.relro
        if table is None or not start <= table < start + size:
            return Finding(Property.RELRO, False, "the entry table is outside of it", TABLE, table or 0)
        return Finding(Property.RELRO, True, f"{found.evidence}, {TABLE} inside")
    return found


def _no_wx(_: Target, facts: Facts) -> Finding:
    faults = [s for s in facts.elf.segments if "w" in s.access and "x" in s.access]
    fault = f"segment at {faults[0].address:#x} is writable and executable" if faults else ""
    return _plain(Property.NO_WX, not faults, ", ".join(s.access for s in facts.elf.segments), fault)


def _no_needed(_: Target, facts: Facts) -> Finding:
    wanted = [*facts.elf.needed, *facts.elf.undefined]
    return _plain(Property.NO_NEEDED, not wanted, "nothing needed, nothing undefined", f"needs {', '.join(wanted)}")


def _relative_only(_: Target, facts: Facts) -> Finding:
    foreign = facts.elf.foreign_relocations
    return _plain(
        Property.RELATIVE_ONLY,
        not foreign,
        f"{facts.elf.relocations} relocations",
        f"relocation of {foreign[0]}" if foreign else "",
    )


def _exports(_: Target, facts: Facts) -> Finding:
    exported, table = facts.elf.exports, facts.elf.table_address
    if exported != (TABLE,):
        return Finding(Property.EXPORTS, False, f"exports {', '.join(exported) or 'nothing'}")
    fault = f"the entry point is {facts.elf.entry_point:#x}, not {TABLE}"
    return _plain(Property.EXPORTS, facts.elf.entry_point == table, f"{TABLE} alone", fault)


def _x86_features(target: Target, code: CodeFacts, facts: Facts) -> list[tuple[int, str]]:
    data, segments = facts.path.read_bytes() if facts.path else b"", facts.elf.segments
    first = ((at, elf.content(data, segments, at, 1)[0]) for at in code.addresses)
    return [*x86.foreign(target, code.forms), *x86.encodings(target, first)]


_MORE_FEATURES: Mapping[str, Callable[[Target, CodeFacts, Facts], list[tuple[int, str]]]] = {
    "hexagon": lambda target, code, _: assembler.foreign(target, code.forms),
    "x86-64": _x86_features,
}
"""Machines whose disassembler takes features from the file, or decodes those of every CPU."""


def _feature_set(target: Target, facts: Facts) -> Finding:
    if facts.path is None or facts.elf.machine != target.machine:
        return Finding(Property.FEATURE_SET, False, f"not decoded with the features of {target.name}")
    code = _scan(facts.path, facts.elf, target)
    faults = [(at, f"the bytes at {at:#x} are no instruction of {target.cpu.name}") for at in code.undecoded]
    faults += system_calls.refused(system_calls.KERNELS[target.machine], code.forms)
    if target.machine in _MORE_FEATURES:
        faults += _MORE_FEATURES[target.machine](target, code, facts)
    evidence = f"{len(code.forms)} forms in {code.instructions} instructions"
    return _first(Property.FEATURE_SET, faults, facts, evidence)


def _full_width(target: Target, facts: Facts) -> Finding:
    """Where loops compute, some instruction uses the widest registers, and their arithmetic fills whole registers.

    A straight run of instructions, which runs as a whole, may compute on less only if it computes as many numbers in
    whole registers: no branch that never runs speaks for it. The compiler does so where it adds up the lanes of one
    register; it does that in outer loops too, where nothing else need stand beside it. It makes no loop of its own for
    the rest of a row, one number at a time, since tensors have their channels in blocks of whole registers. A model
    none of whose values fills more than half of a block needs no more than the half registers of `_whole`.
    """
    wanted, uses = target.vector.register_class, facts.code.vectors
    enough = _whole(target)
    shown = ", ".join(f"{use.register_class} {use.instructions}" for use in uses) or "no vector instruction"
    asked = (wanted,) if facts.wide else enough
    if facts.code.loops and not {use.register_class for use in uses} & {*asked}:
        return Finding(Property.FULL_WIDTH, False, f"no instruction uses {wanted}: {shown}")
    counts, faults = Counter[str](), []
    for run in facts.code.loops:
        counts.update({use.register_class: use.instructions for use in run.uses})
        narrow = [use for use in run.uses if use.register_class not in enough]
        whole = sum(use.instructions for use in run.uses if use.register_class in enough)
        lanes = (whole if run.innermost else whole + 1) * target.vector.f32_lanes
        if sum(use.instructions for use in narrow) > lanes:
            first = min(narrow, key=lambda use: use.address)
            faults.append((first.address, f"{first.text} at {first.address:#x}, in a loop, does not fill {wanted}"))
    looped = ", ".join(f"{name} {counts[name]}" for name in CLASSES[target.machine] if counts[name])
    return _first(Property.FULL_WIDTH, faults, facts, f"{shown}; arithmetic of loops: {looped or 'none'}")


def _whole(target: Target) -> tuple[str, ...]:
    """Classes of a whole register. Those of 64 bytes are also used by halves, for the rest of eight channels."""
    classes, wanted = CLASSES[target.machine], target.vector.register_class
    return classes[classes.index(wanted) - (target.vector.bytes > _UNDIVIDED) :]


_CHECKS: Mapping[Property, Callable[[Target, Facts], Finding]] = {
    Property.KCFI: _kcfi,
    Property.LANDING_PADS: _landing_pads,
    Property.BRANCH_NOTE: _note(Property.BRANCH_NOTE, 0),
    Property.RETURN_NOTE: _note(Property.RETURN_NOTE, 1),
    Property.NO_INDIRECT_BRANCH: _no_indirect_branch,
    Property.RELRO: _relro,
    Property.NOW: lambda _, f: _plain(Property.NOW, f.elf.now, "NOW", "symbols may be bound late"),
    Property.NX_STACK: lambda _, f: _plain(
        Property.NX_STACK, not f.elf.stack_executable, "rw-", "the stack may be executable"
    ),
    Property.NO_WX: _no_wx,
    Property.NO_TEXTREL: lambda _, f: _plain(
        Property.NO_TEXTREL, not f.elf.text_relocations, "none", "relocations in code"
    ),
    Property.NO_SEARCH_PATH: lambda _, f: _plain(
        Property.NO_SEARCH_PATH, not f.elf.search_paths, "none", f"searches {', '.join(f.elf.search_paths)}"
    ),
    Property.NO_NEEDED: _no_needed,
    Property.RELATIVE_ONLY: _relative_only,
    Property.EXPORTS: _exports,
    Property.FEATURE_SET: _feature_set,
    Property.FULL_WIDTH: _full_width,
    Property.NO_BUILD_PATH: lambda _, f: _plain(
        Property.NO_BUILD_PATH, not f.elf.traces, "none", f"holds {', '.join(f.elf.traces)}"
    ),
}
