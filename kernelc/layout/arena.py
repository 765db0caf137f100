"""A static plan of the arena: every value at a fixed offset, memory reused as soon as its value is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of `bytes` that must keep its memory from step `first` to step `last`, both included."""

    name: str
    bytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Arena:
    """Offsets by name, and the size of the whole; both multiples of 64 bytes."""

    offsets: Mapping[str, int]
    bytes: int


def aligned(size: int) -> int:
    """`size` rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(lifetimes: Sequence[Lifetime]) -> Arena:
    """Largest value first, each in the tightest gap between those already placed that live at the same time.

    Ties go to the earlier first step, then to the name, so that the plan depends on nothing else.
    """
    placed: list[tuple[int, Lifetime]] = []
    for value in sorted(lifetimes, key=lambda entry: (-entry.bytes, entry.first, entry.name)):
        busy = sorted((offset, offset + aligned(other.bytes)) for offset, other in placed if other.overlaps(value))
        placed.append((_tightest(busy, aligned(value.bytes)), value))
    end = max((offset + aligned(value.bytes) for offset, value in placed), default=0)
    return Arena({value.name: offset for offset, value in placed}, end)


def _tightest(busy: Sequence[tuple[int, int]], size: int) -> int:
    """Offset of the smallest gap of at least `size` between the `busy` ranges (sorted), else their end."""
    best: tuple[int, int] | None = None
    position = 0
    for start, end in busy:
        gap = start - position
        if gap >= size and (best is None or gap < best[0]):
            best = gap, position
        position = max(position, end)
    return best[1] if best else position
