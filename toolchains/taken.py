"""Which addresses of code are computed by code: of functions handed on by their address, such as a thread's start.

Nothing else than instructions says so: no relocation of data points there. Seen is what compilers write for an address
that is a distance from the instruction itself: x86-64's `lea` from rip, aarch64's `adr`, and `adrp` with the `add`
behind it, riscv64's `auipc` with its `addi`, 32-bit Arm's addition to pc of a number, of a literal or of what
`movw` and `movt` made, hexagon's `add(pc,...)`.

Of two instructions the second may stand anywhere further down while the register keeps its value, read in the order of
the addresses. What begins in code and is not seen to be completed counts as it stands, so that an address put together
across a branch is found at a wrong place rather than not at all: there stands no landing pad, or no instruction.

Not seen: what is computed from further parts (one added to another register, or to an address outside of code), and the
address that a call leaves behind. Absolute addresses need no look: products and kernels are loaded anywhere, and code
that a loader has to change is refused (`no-textrel`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from toolchains.machines import MACHINES

Units = Mapping[int, Sequence[tuple[int, str]]]
"""As `toolchains.flow.units` makes them."""
Code = Sequence[tuple[int, bytes]]
"""(address, bytes) of what a loader makes executable."""


@dataclass(frozen=True, slots=True, order=True)
class Taken:
    """The address of an instruction, and the address in code that it computes."""

    at: int
    to: int


def find(units: Units, machine: str, code: Code, running: Container[int] | None = None) -> tuple[Taken, ...]:
    """Addresses in `code` that instructions compute, in order; with `running`, only units that start there count."""
    reader, mask = _READERS[machine](code), (1 << MACHINES[machine].bits) - 1
    starts = [*units]
    for start, behind in zip(starts, [*starts[1:], 0], strict=True):
        if running is None or start in running:
            for at, text in units[start]:
                reader.read(_Place(start, at, behind), text)
    reader.end()
    found = {Taken(taken.at, taken.to & mask) for taken in reader.found}
    return tuple(sorted(taken for taken in found if _inside(taken.to, code)))


def _inside(address: int, code: Code) -> bool:
    return any(start <= address < start + len(held) for start, held in code)


@dataclass(frozen=True, slots=True)
class _Place:
    """Of an instruction: the start of its unit, its own address, and what stands behind the unit."""

    start: int
    at: int
    behind: int


@dataclass(slots=True)
class _Reader:
    """Reads the instructions of one file in order."""

    code: Code
    found: list[Taken] = field(default_factory=list)

    def read(self, place: _Place, text: str) -> None:
        """One instruction."""
        raise NotImplementedError

    def end(self) -> None:
        """No instruction is left."""


class _X86(_Reader):
    def read(self, place: _Place, text: str) -> None:
        if match := _LEA.search(text):
            self.found.append(Taken(place.at, place.behind + _number(match[1])))


class _Hexagon(_Reader):
    def read(self, place: _Place, text: str) -> None:
        if match := _ADD_PC.search(text):
            self.found.append(Taken(place.at, place.start + _number(match[1])))


@dataclass(slots=True)
class _Armv7(_Reader):
    """`numbers` are by register what was loaded or moved there: a distance from pc, if it is added to that."""

    numbers: dict[str, int] = field(default_factory=dict)

    def read(self, place: _Place, text: str) -> None:
        here = place.at + _AHEAD
        if match := _LITERAL.search(text):
            self._know(match[1], self._word(here + _number(match[2])))
        elif match := _MOVE.search(text):
            number, high = _number(match[3]), match[1] == "movt"
            self._know(match[2], number << 16 | self.numbers.get(match[2], 0) & 0xFFFF if high else number)
        elif match := _PC_AND_NUMBER.search(text):
            self._know(match[2], None)
            self.found.append(Taken(place.at, here + _number(match[3]) * (-1 if match[1] == "sub" else 1)))
        elif match := _PC_AND_REGISTER.search(text):
            self.found.append(Taken(place.at, here + self.numbers.get(match[2] or match[3], 0)))
            self._know(match[1], None)
        elif self.numbers and (match := _WRITTEN.search(text)):
            self._know(match[1], None)

    def _know(self, register: str, number: int | None) -> None:
        self.numbers.pop(register, None)
        if number is not None:
            self.numbers[register] = number

    def _word(self, address: int) -> int | None:
        for start, held in self.code:
            if start <= address <= start + len(held) - 4:
                return int.from_bytes(held[address - start :][:4], "little")
        return None


@dataclass(slots=True)
class _Begun(_Reader):
    """Addresses of two parts: a register gets the first, and one instruction or more adds the second to it."""

    parts: dict[str, Taken] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """Registers of `parts` whose part another instruction completed: it is no address itself."""

    def end(self) -> None:
        """As `_Reader.end`."""
        for register in [*self.parts]:
            self.forget(register)

    def begin(self, register: str, at: int, to: int) -> None:
        """A register holds the first part of an address."""
        self.forget(register)
        self.parts[register] = Taken(at, to)

    def complete(self, at: int, target: str, source: str, more: int) -> None:
        """A register becomes another one and a number."""
        if source in self.parts:
            self.used.add(source)
            self.found.append(Taken(at, self.parts[source].to + more))
        self.forget(target)

    def forget(self, register: str) -> None:
        """A register gets another value: a part that nothing completed counts as it stands."""
        part = self.parts.pop(register, None)
        if part is not None and register not in self.used:
            self.found.append(part)
        self.used.discard(register)

    def pass_by(self, text: str, through: re.Pattern[str]) -> None:
        """Any other instruction; `through` finds the register that it goes through to an address further on."""
        if match := through.search(text):
            self.used.add(match[1] or match[2])
        if match := _WRITTEN.search(text):
            self.forget(match[1])


class _Aarch64(_Begun):
    def read(self, place: _Place, text: str) -> None:
        if match := _ADR.search(text):
            self.forget(match[1])
            self.found.append(Taken(place.at, _number(match[2])))
        elif match := _ADRP.search(text):
            self.begin(match[1], place.at, _number(match[2]))
        elif self.parts and (match := _ADD.search(text)):
            more = _number(match[4]) << _number(match[5])
            self.complete(place.at, match[2], match[3], -more if match[1] == "sub" else more)
        elif self.parts:
            self.pass_by(text, _OFFSET)


class _Riscv64(_Begun):
    def read(self, place: _Place, text: str) -> None:
        if match := _AUIPC.search(text):
            high = _number(match[2]) << 12
            self.begin(match[1], place.at, place.at + (high - (1 << 32) if high >> 31 else high))
        elif self.parts and (match := _ADDI.search(text)):
            self.complete(place.at, match[1], match[2], _number(match[3]))
        elif self.parts:
            self.pass_by(text, _THROUGH)


def _number(text: str | None) -> int:
    return int(text or "0", 0)


_AHEAD = 8
"""How far pc is ahead of an instruction of 32-bit Arm."""
_CONDITION = "(?:eq|ne|hs|lo|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?"
_NUMBER = r"(-?(?:0x[0-9a-f]+|\d+))"
_WRITTEN = re.compile(r"^(?!st|s[bhwd] |fs[hwd] |v|cm|ccm|fcm|tst|teq|cb|tb|b|j|push|pop|ldm|prf)[\w.]+ (\w+)\b")
"""An instruction whose first operand is the register that it writes."""

_LEA = re.compile(rf"\blea[wlq]? {_NUMBER}?\(%[er]ip\)")
_ADD_PC = re.compile(rf"\badd\(pc,##?{_NUMBER}\)|= pc\b")

_LITERAL = re.compile(rf"^ldr{_CONDITION} (\w+), \[pc(?:, #{_NUMBER})?\]$")
_MOVE = re.compile(rf"^(movw|movt){_CONDITION} (\w+), #{_NUMBER}")
_PC_AND_NUMBER = re.compile(rf"^(add|sub|mov){_CONDITION} (\w+), pc(?:, #{_NUMBER})?$")
_PC_AND_REGISTER = re.compile(rf"^add{_CONDITION} (\w+), (?:pc, (\w+)|(\w+), pc)")

_ADR = re.compile(rf"^adr (\w+), #?{_NUMBER}")
_ADRP = re.compile(rf"^adrp (\w+), #?{_NUMBER}")
_ADD = re.compile(rf"^(add|sub) (\w+), (\w+), #{_NUMBER}(?:, lsl #(\d+))?$")
_OFFSET = re.compile(r"\[(\w+), ()")

_AUIPC = re.compile(rf"^auipc (\w+), {_NUMBER}")
_ADDI = re.compile(rf"^addi (\w+), (\w+), {_NUMBER}")
_THROUGH = re.compile(r"0x(?!0\()[0-9a-f]+\((\w+)\)|^(?:jalr|jr) (?:0x0\()?(\w+)\)?(?: <|$)")

_READERS: Mapping[str, Callable[[Code], _Reader]] = MappingProxyType(
    {"aarch64": _Aarch64, "armv7": _Armv7, "hexagon": _Hexagon, "riscv64": _Riscv64, "x86-64": _X86}
)
