"""How llvm-objdump's text of each machine is read: indirect branches, and the widest vector register of a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from toolchains import flow


@dataclass(slots=True)
class Reader:
    """Reads the instructions of one file in order; some lines mean something only after those before them."""

    branch: re.Pattern[str]
    widths: tuple[tuple[str, re.Pattern[str]], ...]
    """(register class, what its use looks like), the widest first."""
    returns: re.Pattern[str] | None = None
    """Matches of `branch` that are returns."""
    previous: str = ""
    lanes: int = 0
    """Bits that RISC-V's vector instructions work on, by the last instruction that set them."""

    def bare(self, text: str) -> str:
        """The instruction without marks of the packet that it stands in."""
        return text

    def indirect(self, text: str) -> bool:
        """Whether the instruction jumps or calls through a register or memory; a return does not count."""
        found = self.branch.search(text) is not None and not (self.returns and self.returns.search(text))
        return found and not flow.is_far(self.previous, text)

    def width(self, text: str) -> str:
        """Class of the widest vector or floating-point register of the instruction, "" for none."""
        for name, pattern in self.widths:
            if pattern.search(text):
                return name
        return ""

    def step(self, text: str) -> None:
        """Remember the instruction for those behind it."""
        self.previous = text


class _Riscv(Reader):
    """RISC-V's vector instructions say how wide they are only through the last vset instruction."""

    def width(self, text: str) -> str:
        """As `Reader.width`; a vector instruction counts as "v" when it works on 128 bits or more."""
        found = Reader.width(self, text)
        return "part" if found == "v" and self.lanes < _FULL else found

    def step(self, text: str) -> None:
        """As `Reader.step`."""
        Reader.step(self, text)
        if match := _SET_LENGTH.search(text):
            # Without an immediate the length is a register's: compilers use that for more than 31 values.
            self.lanes = _FULL if match[1] == "vsetvli" else int(match[2], 0) * int(match[3])


class _Hexagon(Reader):
    """Hexagon's instructions stand in packets: "{ a", "b }", "c } :endloop0"."""

    def bare(self, text: str) -> str:
        """As `Reader.bare`."""
        return _PACKET.sub("", text)


_PACKET = re.compile(r"^\{\s*|\s*\}(\s*:end\w+)*\s*$")
_FULL = 128
_SET_LENGTH = re.compile(r"^(vsetivli|vsetvli)\s+\w+, (\w+), e(\d+),")


def _classes(*pairs: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern)) for name, pattern in pairs)


_X86 = (
    re.compile(r"\b(jmp|call|lcall|ljmp)[wlq]?\s+\*|\b(lret|iret|sysret|sysexit|uiret)[wlq]?\b"),
    _classes(("zmm", r"%zmm\d"), ("ymm", r"%ymm\d"), ("xmm", r"%xmm\d")),
)
_AARCH64 = (
    re.compile(r"^(br|blr|bra[ab]z?|blra[ab]z?|eret|drps)\b|^ret\s+x"),
    _classes(
        ("q", r"\bq\d+\b|\bv\d+\.(16b|8h|4s|2d)\b"),
        ("d", r"\bd\d+\b|\bv\d+\.(8b|4h|2s|1d)\b"),
        ("s", r"\b[sh]\d+\b|\bv\d+\.[bhsd]\b"),
    ),
)
_CONDITIONS = "(eq|ne|hs|lo|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?"
_ARMV7 = (
    # Writes of pc are branches: moves, loads, arithmetic, and lists of registers that hold it.
    re.compile(rf"^b(x|lx|xj){_CONDITIONS}\s|^(?!b|cmp|cmn|tst|teq|str|push)\w+\s+pc\b|\{{[^}}]*\bpc\b"),
    _classes(("q", r"\bq\d+\b"), ("d", r"\bd\d+\b"), ("s", r"\bs\d+\b")),
    re.compile(rf"^bx{_CONDITIONS}\s+lr$|^pop{_CONDITIONS}\s+\{{[^}}]*\bpc\}}$|^ldr{_CONDITIONS}\s+pc, \[sp\], #4$"),
)
_RISCV64 = (
    re.compile(r"^(c\.)?(jr|jalr)\b"),
    _classes(("v", r"^v(?!set)\w|\bv\d+\b"), ("f", r"\bf[ast]\d+\b|^f[a-z]+\.[sd]\b")),
)
_HEXAGON = (
    re.compile(r"\b(callr|callrh|hintjr)\b|\bjumprh?(:n?t)?\s+(?!r31\b)"),
    (),
)

READERS: Mapping[str, Callable[[], Reader]] = MappingProxyType(
    {
        "aarch64": lambda: Reader(*_AARCH64),
        "armv7": lambda: Reader(*_ARMV7),
        "hexagon": lambda: _Hexagon(*_HEXAGON),
        "riscv64": lambda: _Riscv(*_RISCV64),
        "x86-64": lambda: Reader(*_X86),
    }
)
"""A new reader for each machine."""
CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "aarch64": ("s", "d", "q"),
        "armv7": ("s", "d", "q"),
        "hexagon": (),
        "riscv64": ("f", "part", "v"),
        "x86-64": ("xmm", "ymm", "zmm"),
    }
)
"""Register classes of each machine, narrow to wide."""
