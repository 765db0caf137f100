"""Which instructions of a linked file can run: control flow followed from where it can be entered.

A stripped file does not say which of its bytes are code: KCFI's ids stand before functions, constants behind them. But
code that has no indirect branch inside itself runs only where direct branches, and one instruction behind the other,
lead. A call comes back only if a return can be reached in what it calls; behind one that never does may stand anything.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Step:
    """Where control goes from an instruction (on Hexagon: a packet), and the address behind it."""

    behind: int
    jumps: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()
    falls: bool = True
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """What can run. `functions` are the entries and whatever is called, `returning` those of them that come back."""

    reached: frozenset[int]
    """Addresses of instructions, on Hexagon of packets."""
    missing: frozenset[int]
    """Addresses that are reached but where no instruction starts."""
    functions: frozenset[int]
    returning: frozenset[int]
    calls: tuple[tuple[int, int], ...]
    """(address of the call, what it calls), in order."""
    jumps: tuple[tuple[int, int], ...]
    """(address of the jump, where it goes), in order."""


@dataclass(frozen=True, slots=True)
class _Syntax:
    """How a machine writes direct branches; the first group of `call` and `jump` is the address."""

    call: re.Pattern[str]
    jump: re.Pattern[str]
    end: re.Pattern[str]
    """Nothing behind it runs."""
    returns: re.Pattern[str]

    def any(self) -> re.Pattern[str]:
        """What all but plain instructions look like: most are plain, and looking once is cheaper than four times."""
        parts = (self.call, self.jump, self.end, self.returns, _FAR_JUMP)
        return re.compile("|".join(f"(?:{part.pattern})" for part in parts))


_CONDITION = "(?:eq|ne|hs|lo|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)"
_SYNTAX: Mapping[str, _Syntax] = MappingProxyType(
    {
        "aarch64": _Syntax(
            re.compile(r"^bl 0x([0-9a-f]+)"),
            re.compile(r"^(?:b(?:\.\w+)?|cbn?z|tbn?z) (?:\w+, )?(?:#\w+, )?0x([0-9a-f]+)"),
            re.compile(r"^(?:b|br|ret|brk|udf|hlt)(?: |$)"),
            re.compile(r"^ret(?: |$)"),
        ),
        "armv7": _Syntax(
            re.compile(rf"^bl{_CONDITION}? #?0x([0-9a-f]+)"),
            re.compile(rf"^b{_CONDITION}? #?0x([0-9a-f]+)"),
            re.compile(r"^(?:b|bx|bxj|udf|trap)(?: |$)|^(?:ldr|mov) pc,|^(?:pop|ldm\w*) .*\bpc\b"),
            re.compile(rf"^bx{_CONDITION}? lr$|^(?:pop|ldm){_CONDITION}? .*\bpc\b|^ldr{_CONDITION}? pc, \[sp\], #4$"),
        ),
        "hexagon": _Syntax(
            re.compile(r"\bcall 0x([0-9a-f]+)"),
            re.compile(r"\b(?:jump(?::n?t)? |loop[01]\()0x([0-9a-f]+)"),
            re.compile(r"^(?:.*; ?)?(?:jump|jumpr|dealloc_return)\b|\bmemd\(##0xbadc0fee\)"),  # the last: LLVM's trap
            re.compile(r"\b(?:jumpr(?::n?t)? r31|dealloc_return)\b"),
        ),
        "riscv64": _Syntax(
            re.compile(r"^jal (?:ra, )?0x([0-9a-f]+)"),
            re.compile(r"^(?:j|b\w+) (?:\w+, )*0x([0-9a-f]+)"),
            re.compile(r"^(?:j|jr|ret|ebreak|unimp)(?: |$)"),
            re.compile(r"^ret$"),
        ),
        "x86-64": _Syntax(
            re.compile(r"^callq? 0x([0-9a-f]+)"),
            re.compile(r"^(?:j\w+|loop\w*) 0x([0-9a-f]+)"),
            re.compile(r"^(?:(?:rep\w*|bnd) )?(?:jmp[lwq]?|ret[lwq]?|ud2|hlt|int3)(?: |$)"),
            re.compile(r"^(?:(?:rep\w*|bnd) )?ret[lwq]?(?: |$)"),
        ),
    }
)
_FAR_ADDRESS = re.compile(r"^auipc (\w+), 0x([0-9a-f]+)$")
_FAR_JUMP = re.compile(r"^(jalr|jr) (?:(-?)0x([0-9a-f]+)\((\w+)\)|(\w+))(?: <|$)")


def units(lines: Mapping[int, str], machine: str) -> dict[int, list[tuple[int, str]]]:
    """Instructions as they run: each alone, on Hexagon those of a packet together. `lines` keep the packets' braces."""
    if machine != "hexagon":
        return {at: [(at, text)] for at, text in lines.items()}
    found: dict[int, list[tuple[int, str]]] = {}
    packet: list[tuple[int, str]] = []
    for at, text in lines.items():
        if text.startswith("{") or not packet:
            packet = found[at] = []
        packet.append((at, _PACKET.sub("", text)))
        if "}" in text or "<unknown>" in text:
            packet = []
    return found


_PACKET = re.compile(r"^\{\s*|\s*\}(\s*:end\w+)*\s*$")


def steps(units: Mapping[int, Sequence[tuple[int, str]]], machine: str) -> dict[int, Step]:
    """The step of each unit, in the order of the addresses."""
    syntax, starts, found = _SYNTAX[machine], [*units], {}
    starts.append(starts[-1] + 1 if starts else 0)  # behind the last one stands nothing
    previous, special = "", syntax.any()
    for number, (at, unit) in enumerate(units.items()):
        jumps, calls, falls, returns = [], [], True, False
        for place, text in unit:
            before, previous = previous, text
            if not special.search(text):
                continue
            if match := syntax.call.search(text):
                calls.append(int(match[1], 16))
            if match := syntax.jump.search(text):
                jumps.append(int(match[1], 16))
            if syntax.returns.search(text):
                returns = True
            if syntax.end.search(text):
                falls = False
            if machine == "riscv64" and (far := _far(before, text, place)):
                (calls if far[1] else jumps).append(far[0])
        found[at] = Step(starts[number + 1], tuple(jumps), tuple(calls), falls, returns)
    return found


def _far(previous: str, text: str, at: int) -> tuple[int, bool] | None:
    """RISC-V's branch to a fixed address far away: where it goes, and whether it is a call."""
    page, jump = _FAR_ADDRESS.search(previous), _FAR_JUMP.search(text)
    if page is None or jump is None or page[1] not in (jump[4], jump[5]):
        return None
    high = int(page[2], 16) << 12
    low = int(jump[3] or "0", 16) * (-1 if jump[2] else 1)
    return (at - 4 + (high - (1 << 32) if high >> 31 else high) + low, jump[1] == "jalr")


def is_far(previous: str, text: str) -> bool:
    """Whether two RISC-V instructions, one behind the other, are a branch to a fixed address far away."""
    return _far(previous, text, 0) is not None


def landings(steps: Mapping[int, Step], entries: Iterable[int]) -> frozenset[int]:
    """Where control may come from elsewhere than the instruction before: entries, targets of branches."""
    return frozenset(entries) | {to for step in steps.values() for to in (*step.jumps, *step.calls)}


def follow(steps: Mapping[int, Step], entries: Iterable[int]) -> Flow:
    """What can run when control enters at `entries`, given the step of every instruction."""
    seen: dict[int, set[int]] = {}
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)
    returning: set[int] = set()
    missing: set[int] = set()
    work = [(entry, entry) for entry in sorted(set(entries))]
    for entry, _ in work:
        seen[entry] = set()
    while work:
        function, at = work.pop()
        if at in seen[function]:
            continue
        seen[function].add(at)
        step = steps.get(at)
        if step is None:
            missing.add(at)
            continue
        if step.returns and function not in returning:
            returning.add(function)
            work += waiting.pop(function, [])
        work += [(function, target) for target in step.jumps]
        if not step.falls:
            continue
        for called in step.calls:
            if called not in seen:
                seen[called] = set()
                work.append((called, called))
        silent = [called for called in step.calls if called not in returning]
        if silent:
            waiting[silent[0]].append((function, step.behind))
        else:
            work.append((function, step.behind))
    everything = sorted({at for places in seen.values() for at in places if at in steps})
    return Flow(
        frozenset(everything),
        frozenset(missing),
        frozenset(seen),
        frozenset(returning),
        tuple((at, called) for at in everything for called in steps[at].calls),
        tuple((at, target) for at in everything for target in steps[at].jumps),
    )
