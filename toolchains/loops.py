"""Which instructions may run again and again, and which of them compute with floating-point numbers.

On any cycle of control flow the way from its highest address back to its lowest goes by jumps backwards, and each of
these passes over what lies between its ends. So whatever is in a loop lies between a jump and a target before it; what
lies there without being in the loop is counted too. A function that is called counts as a whole: its call may stand in
a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from toolchains.flow import Step, landings

ARITHMETIC: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "aarch64": re.compile(r"^f(?!mov|cvt|csel|jcvt)"),
        "armv7": re.compile(r"^v(?!mov|cvt|dup|div|sqrt)\w+\.f(?:16|32|64)\b"),  # NEON has no division and no root
        "riscv64": re.compile(
            r"^vf(?!\w*cvt|\w*mv|merge|slide)\w+\.|^f(?:n?m?(?:add|sub)|mul|div|sqrt|min|max|eq|lt|le)\.[sd]\b"
        ),
        "x86-64": re.compile(
            r"^v?(?:add|sub|mul|div|max|min|sqrt|u?comi|cmp\w*|round|rndscale|scalef|getexp|getmant|range|reduce"
            r"|rcp\w*|rsqrt\w*|h?(?:add|sub)|addsub|dp|fn?m(?:add|sub|addsub|subadd)\d*)[ps][sd]\b"
        ),
    }
)
"""Instructions that compute with floating-point numbers: neither moves nor conversions. A machine without vector
registers has none here."""


@dataclass(frozen=True, slots=True)
class Use:
    """How many instructions of a straight run compute in this class of registers ("" for none), and the first one."""

    register_class: str
    instructions: int
    address: int
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """The arithmetic of straight code, all of which runs when its first instruction does."""

    uses: tuple[Use, ...]
    innermost: bool
    """It lies in no loop that holds another one."""


def arithmetic(
    texts: Mapping[int, str], widths: Mapping[int, str], steps: Mapping[int, Step], entries: Iterable[int], machine: str
) -> tuple[Run, ...]:
    """The straight runs of loops that compute, in order. `widths` are the classes of registers by address, as `texts`.

    A run ends at what jumps, calls or returns, and before what is jumped at.
    """
    entered = tuple(entries)
    starts, loops = landings(steps, entered), _Loops(steps, entered)
    found: dict[str, list[int]] = {}
    runs: list[Run] = []
    for at, text in texts.items():
        if at in starts:
            _close(found, texts, loops, runs)
        if ARITHMETIC[machine].search(text):
            found.setdefault(widths.get(at, ""), []).append(at)
        step = steps[at]
        if step.jumps or step.calls or step.returns or not step.falls:
            _close(found, texts, loops, runs)
    _close(found, texts, loops, runs)
    return tuple(runs)


def _close(found: dict[str, list[int]], texts: Mapping[int, str], loops: _Loops, runs: list[Run]) -> None:
    """Take what was found since the last run ended as a run, where it is in a loop. All of it is in the same one."""
    if found and (loop := loops.around(min(min(places) for places in found.values()))):
        uses = (Use(name, len(places), places[0], texts[places[0]]) for name, places in sorted(found.items()))
        runs.append(Run(tuple(uses), loops.is_innermost(loop)))
    found.clear()


class _Loops:
    """Stretches of code, each (first address, last address), that may run more than once in one call of an entry."""

    def __init__(self, steps: Mapping[int, Step], entries: Iterable[int]) -> None:
        called = {to for step in steps.values() for to in step.calls}
        starts = sorted({*entries, *called, max(steps, default=0) + 1})
        last: dict[int, int] = {start: behind - 1 for start, behind in pairwise(starts) if start in called}
        for at, step in steps.items():
            for to in step.jumps:
                if to <= at:
                    last[to] = max(at, last.get(to, 0))
        self._all = sorted(last.items())
        self._outer = {one for one in self._all if any(one != other and _within(other, one) for other in self._all)}

    def around(self, at: int) -> tuple[int, int] | None:
        """The shortest stretch that an address lies in."""
        return min((one for one in self._all if one[0] <= at <= one[1]), key=_length, default=None)

    def is_innermost(self, loop: tuple[int, int]) -> bool:
        """Whether no other stretch lies inside."""
        return loop not in self._outer


def _within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _length(stretch: tuple[int, int]) -> int:
    return stretch[1] - stretch[0]
