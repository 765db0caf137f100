"""The gate of what a payload ships beside its kernels, the library and the program: properties, from their bytes.

Both hold one call through a pointer, that of a kernel, and KCFI's check stands right before it. A stripped file does
not say where: the gate follows control flow (`toolchains.flow`) and takes no other indirect branch, nor this one
without its check. It enters wherever somebody else could: what is exported, the entry point, and code whose address
stands in data or is computed by code that runs (`toolchains.taken`). Everything is decoded with the features of the
machine's oldest supported CPU alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from toolchains import assembler, disasm, elf, flow, gate, runtime_build, system_calls, taken, x86
from toolchains.checked_calls import CHECKS, TRAPS, WINDOW
from toolchains.elf import TILE_TYPE, Elf
from toolchains.flow import Flow, Step
from toolchains.gate import Facts, Finding, Product
from toolchains.instructions import READERS
from toolchains.machines import MACHINES
from toolchains.properties import ProductProperty, Property
from toolchains.runtime_build import HEADER, LIBRARY, PROGRAM
from toolchains.taken import Taken
from toolchains.target import Cpu, Target, load, names

_DECLARED = re.compile(r"\b(media_\w+)\(")
_NOPS: Mapping[str, bytes] = MappingProxyType({"hexagon": b"\x00\xc0\x00\x7f", "riscv64": b"\1\0\1\0"})
"""A word that does nothing, where an id before a function could be taken for the start of its first instruction."""
_ROUNDS = 6
_PROBES: Mapping[str, bytes] = MappingProxyType({"riscv64": b"\x57\x70\x02\xcd"})
"""The one instruction beyond the baseline, in one place: the runtime's question whether there is a vector unit."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What can run of a file: instructions by address, and the steps of their units."""

    texts: Mapping[int, str]
    """Of the whole sweep, in order, without the marks of packets."""
    running: tuple[int, ...]
    """Addresses of the instructions that are reached."""
    steps: Mapping[int, Step]
    flow: Flow
    indirect: tuple[int, ...]
    """Reached instructions that branch through a register or memory, returns excepted."""
    entries: frozenset[int]
    """Where it can be entered: from outside (`Elf.entered`), and what `taken` names."""
    taken: tuple[Taken, ...]
    """Addresses of code that reached instructions compute."""


@dataclass(frozen=True, slots=True)
class ProductFacts:
    """What the bytes of a product say. `interface` are the functions that its header declares; a program has none."""

    name: str
    path: Path
    elf: Elf
    code: Reached
    interface: tuple[str, ...]

    def place(self, address: int) -> str:
        """The function that an address lies in: "media_engine_open+0x1c", or "0x11550+0x30" for one without a name."""
        before = max((start for start in self.code.flow.functions if start <= address), default=None)
        if before is None:
            return f"{address:#x}"
        names = {at: name for name, at in self.elf.named}
        return f"{names.get(before, hex(before))}+{address - before:#x}"


def inspect(path: Path, header: str | None = None) -> ProductFacts:
    """Facts of a library or program; `header` is the text of the interface's, by default that of the sources.

    Raises `FarmError` ELF_INVALID for a file that is not linked code, TOOL_MISSING and its kin.
    """
    text = header if header is not None else (runtime_build.source_root() / "include" / HEADER).read_text("utf-8")
    facts = elf.read(path)
    interface = (
        tuple(sorted(set(_DECLARED.findall(text))))
        if path.name == LIBRARY or (path.name != PROGRAM and facts.exports)
        else ()
    )
    return ProductFacts(path.name, path, facts, _code(path.read_bytes(), facts.machine, facts), interface)


def resembles(facts: Elf) -> bool:
    """Whether a file, whatever its name, looks like a product: a program of its own, or what exports the interface."""
    return bool(facts.exports or facts.entered) and all(name.startswith("media_") for name in facts.exports)


def target_of(machine: str) -> str:
    """The first target of a machine: its products are those of all others. Empty for a machine without one."""
    return next((name for name in names() if load(name).machine == machine), "")


def report(target: Target, facts: ProductFacts) -> Product:
    """Every property that a product of the target's machine can have, found or not."""
    impossible = tuple(item for item in target.hardening.impossible if item in _CHECKS)
    findings = tuple(_CHECKS[item](target, facts) for item in sorted(_CHECKS, key=str) if item not in impossible)
    return Product(
        facts.name,
        facts.elf.digest,
        findings,
        impossible,
        len(facts.code.flow.functions),
        len(facts.code.running),
    )


def require(target: Target, facts: ProductFacts) -> Product:
    """The report when every property holds; else HARDENING_MISSING names property, file, function and offset."""
    found = report(target, facts)
    detail = {"product": facts.name, "target": target.name}
    gate.require_all(found.findings, f"{facts.name} for {target.name} lacks", detail)
    return found


def require_both(target: Target, folder: Path) -> tuple[Product, ...]:
    """The reports on the library and the program in a folder, with their header beside them."""
    header = (folder / HEADER).read_text("utf-8")
    return tuple(require(target, inspect(folder / name, header)) for name in (LIBRARY, PROGRAM))


@lru_cache(maxsize=8)
def _code(data: bytes, machine: str, facts: Elf) -> Reached:
    """What can run. Targets of one machine share their products' bytes, hence the memory of the last ones.

    A sweep may lose its step on a word before a function that is no instruction: then such words are covered, and the
    sweep is done again. What is covered must not run.
    """
    covered: set[int] = set()
    refused: set[int] = set()
    cuts = set(facts.entered)
    for _ in range(_ROUNDS):
        swept = disasm.baseline_lines(_pieces(_without(data, facts, covered, machine), facts, cuts), machine)
        units = flow.units(swept, machine)
        steps = flow.steps(units, machine)
        found, addresses = _followed(units, steps, facts, elf.code(data, facts.segments))
        inside = {at for start in found.reached for at, _ in units[start]}
        wrong = {word for word in covered if any(word + k in inside for k in range(4))}
        refused |= wrong
        lost = {at - 4 for at in found.missing} if machine in _NOPS else set()
        if lost:
            lost |= {to - 4 for step in steps.values() for to in step.calls if to not in units}
        fresh = lost - covered - refused
        uncut = {each.to for each in addresses} & found.missing - cuts
        if not (fresh or wrong or uncut):
            break
        covered = (covered | fresh) - wrong
        cuts |= uncut
    if wrong:
        found = dataclasses.replace(found, missing=found.missing | wrong)
    entries = frozenset(facts.entered) | {each.to for each in addresses}
    reader = READERS[machine]()
    texts = {at: text for unit in units.values() for at, text in unit}
    indirect = []
    landed = {to for _, to in (*found.jumps, *found.calls)} | entries
    for at in sorted(inside):
        if at in landed:  # what stands before it may not have run
            reader.step("")
        if reader.indirect(texts[at]):
            indirect.append(at)
        reader.step(texts[at])
    return Reached(texts, tuple(sorted(inside)), steps, found, tuple(indirect), entries, addresses)


def _followed(
    units: taken.Units, steps: Mapping[int, Step], facts: Elf, code: taken.Code
) -> tuple[Flow, tuple[Taken, ...]]:
    """What runs, and the addresses of code that it computes.

    Whoever gets such an address may enter there, so it is followed from there too, until nothing new is computed.
    Constants among the code of 32-bit Arm would be followed as well; without NEON their addresses are not taken.
    """
    entries, addresses = set(facts.entered), tuple[Taken, ...]()
    while True:
        found = flow.follow(steps, entries)
        addresses = taken.find(units, facts.machine, code, found.reached)
        fresh = {each.to for each in addresses} - entries
        if not fresh:
            return found, addresses
        entries |= fresh


def _without(data: bytes, facts: Elf, words: set[int], machine: str) -> bytes:
    """The file with these words of its code covered by instructions that do nothing."""
    changed = bytearray(data)
    for segment in facts.segments:
        for word in sorted(words) if "x" in segment.access else ():
            if segment.covers(word, 4):
                at = segment.offset + word - segment.address
                changed[at : at + 4] = _NOPS[machine]
    return bytes(changed)


def _pieces(data: bytes, facts: Elf, entries: Iterable[int]) -> list[tuple[int, bytes]]:
    """The code, cut where it can be entered: a sweep that lost its step before finds it again there."""
    found = []
    for address, code in elf.code(data, facts.segments):
        cuts = [at - address for at in entries if 0 < at - address < len(code)]
        found += [(address + a, code[a:b]) for a, b in pairwise([0, *sorted(cuts), len(code)])]
    return found


_Wanted = Property | ProductProperty


def _found(property_: _Wanted, faults: Sequence[tuple[int, str]], facts: ProductFacts, evidence: str) -> Finding:
    """Holds without a fault; else the first fault (address, text) decides what is reported."""
    for address, text in sorted(faults):
        return Finding(property_, False, text, facts.place(address), address)
    return Finding(property_, True, evidence)


def _plain(property_: _Wanted, holds: bool, evidence: str, fault: str) -> Finding:
    return Finding(property_, holds, evidence if holds else fault)


def _shared(property_: Property) -> Callable[[Target, ProductFacts], Finding]:
    """A property that is the same for kernels: a matter of the file alone, not of its code."""
    return lambda target, facts: gate.check(property_, target, _file_facts(facts))


def _file_facts(facts: ProductFacts) -> Facts:
    return Facts(facts.elf, disasm.CodeFacts(0, (), (), ()))


def checked(facts: ProductFacts, call: int) -> str:
    """Why KCFI's check does not stand right before an indirect branch; "" where it does."""
    code, machine = facts.code, facts.elf.machine
    before = [at for at in code.texts if at <= call][-WINDOW:]
    texts = [code.texts[at].split(" <")[0] for at in before]
    match = CHECKS[machine].search("\n".join(texts))
    if match is None:
        return "it has no check before it"
    parts = match.groupdict()
    skip, fail = parts.get("skip"), parts.get("fail")
    if skip is not None and int(skip, 16) != call:
        return "its check goes on elsewhere"
    if fail is not None:
        calls = code.steps[int(fail, 16)].calls if int(fail, 16) in code.steps else ()
        if not calls or any(called in code.flow.returning for called in calls):
            return "its check does not end the program"
    first = before["\n".join(texts)[: match.start()].count("\n")]
    own = [at for at in before if at >= first]
    strangers = [at for at, to in code.flow.jumps if first < to <= call and at not in own]
    strangers += [at for at, to in code.flow.calls if first < to <= call]
    if strangers:
        return f"a branch at {strangers[0]:#x} goes into its check"
    inside = [at for at in sorted(code.entries) if first < at <= call]
    return f"it can be entered at {inside[0]:#x}, inside its check" if inside else ""


def _no_indirect_branch(_: Target, facts: ProductFacts) -> Finding:
    faults = []
    for at in facts.code.indirect:
        if why := checked(facts, at):
            faults.append((at, f"{facts.code.texts[at]} at {at:#x}: {why}"))
    faults += [(at, f"no instruction starts at {at:#x}, where control can go") for at in facts.code.flow.missing]
    count = len(facts.code.running)
    return _found(Property.NO_INDIRECT_BRANCH, faults, facts, f"none but the checked call in {count} instructions")


def _kcfi(_: Target, facts: ProductFacts) -> Finding:
    good = [at for at in facts.code.indirect if not checked(facts, at)]
    faults = [(at, f"a kernel's type id stands at {at:#x}: it could be called") for at in facts.elf.stray_ids]
    faults += [(at, f"a second checked call at {at:#x}") for at in good[1:]]
    if not good and not faults:
        return Finding(Property.KCFI, False, "there is no checked call")
    return _found(
        Property.KCFI, faults, facts, f"one call, of type id {TILE_TYPE} alone, which stands before no function here"
    )


def _landing_pads(_: Target, facts: ProductFacts) -> Finding:
    data, pads = facts.path.read_bytes(), MACHINES[facts.elf.machine].landing_pads
    takers = {each.to: f", whose address is taken at {each.at:#x}" for each in reversed(facts.code.taken)}
    bare = [at for at in facts.code.entries if not any(_starts(data, facts.elf, at, pad) for pad in pads)]
    faults = [(at, f"no landing pad at {at:#x}{takers.get(at, '')}") for at in bare]
    shown = f"at each of {len(facts.code.entries)} entries, {len(takers)} of them functions whose address code takes"
    return _found(Property.LANDING_PADS, faults, facts, shown)


def _starts(data: bytes, facts: Elf, address: int, wanted: bytes) -> bool:
    """Whether these bytes of the file stand at an address."""
    size = len(wanted)
    return any(s.covers(address, size) for s in facts.segments) and (
        elf.content(data, facts.segments, address, size) == wanted
    )


def _exports(_: Target, facts: ProductFacts) -> Finding:
    exported, wanted = set(facts.elf.exports), set(facts.interface)
    if more := sorted(exported - wanted):
        return Finding(Property.EXPORTS, False, f"exports {', '.join(more)}")
    if less := sorted(wanted - exported):
        return Finding(Property.EXPORTS, False, f"does not export {', '.join(less)}")
    aside = sorted(name for name, at in facts.elf.named if at not in facts.elf.entered)
    aside += [f"{facts.elf.named_code} symbols in code"] if facts.elf.named_code != len(wanted) else []
    shown = f"the {len(wanted)} functions of {HEADER}" if wanted else "nothing"
    return _plain(Property.EXPORTS, not aside, shown, f"names what is no function: {', '.join(aside)}")


def _feature_set(target: Target, facts: ProductFacts) -> Finding:
    if facts.elf.machine != target.machine:
        return Finding(Property.FEATURE_SET, False, f"it is for {facts.elf.machine}, not {target.machine}")
    code, cpu = facts.code, target.cpu.baseline
    oldest = dataclasses.replace(target, cpu=Cpu(cpu, cpu, (), ()))
    data, segments = facts.path.read_bytes(), facts.elf.segments
    unknown = [at for at in code.running if "<unknown>" in code.texts[at]]
    probe = _PROBES.get(target.machine)
    probes = [at for at in unknown if probe is not None and _starts(data, facts.elf, at, probe)][:1]
    faults = [(at, f"the bytes at {at:#x} are no instruction of {cpu}") for at in unknown if at not in probes]
    forms: dict[str, tuple[str, int]] = {}
    for at in code.running:
        forms.setdefault(disasm.form(code.texts[at]), (code.texts[at], at))
    listed = [value for _, value in sorted(forms.items())]
    faults += system_calls.refused(system_calls.PRODUCTS[target.machine], listed)
    if target.machine == "hexagon":
        faults += assembler.foreign(oldest, listed)
    if target.machine == "x86-64":
        faults += x86.foreign(oldest, listed, x86.RUNTIME)
        faults += x86.encodings(oldest, ((at, elf.content(data, segments, at, 1)[0]) for at in code.running))
    aside = " but one, which a child process tries" if probes else ""
    shown = f"{len(listed)} forms in {len(code.running)} instructions, all of {cpu}{aside}"
    return _found(Property.FEATURE_SET, faults, facts, shown)


def _position_independent(_: Target, facts: ProductFacts) -> Finding:
    fault = "it runs at one address only" if facts.elf.fixed else "it asks for an interpreter"
    holds = not facts.elf.fixed and not facts.elf.interpreter
    return _plain(ProductProperty.POSITION_INDEPENDENT, holds, "loaded anywhere, without an interpreter", fault)


def _stack_protector(_: Target, facts: ProductFacts) -> Finding:
    """What ends a function whose canary was changed is a function that is nothing but a trap."""
    code, trap = facts.code, TRAPS[facts.elf.machine]
    order = list(code.texts)
    numbers = {at: number for number, at in enumerate(order)}
    traps = {
        at
        for at in code.flow.functions
        if at in numbers and trap.search("\n".join(code.texts[k] for k in order[numbers[at] : numbers[at] + 2]))
    }
    count = sum(to in traps for _, to in (*code.flow.calls, *code.flow.jumps))
    return _plain(
        ProductProperty.STACK_PROTECTOR, count > 0, f"{count} checks end in a trap", "no canary is compared anywhere"
    )


_CHECKS: Mapping[_Wanted, Callable[[Target, ProductFacts], Finding]] = MappingProxyType(
    {
        **{
            item: _shared(item)
            for item in (
                Property.BRANCH_NOTE,
                Property.RETURN_NOTE,
                Property.NOW,
                Property.NX_STACK,
                Property.NO_WX,
                Property.NO_TEXTREL,
                Property.NO_SEARCH_PATH,
                Property.NO_NEEDED,
                Property.RELATIVE_ONLY,
                Property.NO_BUILD_PATH,
            )
        },
        Property.RELRO: lambda target, facts: gate.sealed(target, _file_facts(facts)),
        Property.KCFI: _kcfi,
        Property.LANDING_PADS: _landing_pads,
        Property.NO_INDIRECT_BRANCH: _no_indirect_branch,
        Property.EXPORTS: _exports,
        Property.FEATURE_SET: _feature_set,
        ProductProperty.POSITION_INDEPENDENT: _position_independent,
        ProductProperty.STACK_PROTECTOR: _stack_protector,
    }
)
PROPERTIES: tuple[_Wanted, ...] = tuple(sorted(_CHECKS, key=str))
"""What is read of a product; kernels alone have the others."""
