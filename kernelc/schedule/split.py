"""Static covers of a range by tiles of at most two sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """`count` tiles of `size`, the first one at `start`."""

    start: int
    count: int
    size: int

    @property
    def end(self) -> int:
        """One past the last covered index."""
        return self.start + self.count * self.size

    def moved(self, offset: int) -> Run:
        """The same tiles `offset` further on."""
        return Run(self.start + offset, self.count, self.size)


def balanced(extent: int, largest: int) -> tuple[Run, ...]:
    """Cover [0, extent) by the fewest tiles of at most `largest`, of sizes that differ by one: 13 by 6 is 5, 4, 4."""
    tiles = -(-extent // largest)
    size, longer = divmod(extent, tiles)
    runs = [Run(0, longer, size + 1)] if longer else []
    start = longer * (size + 1)
    return (*runs, Run(start, tiles - longer, size))


def chunks(extent: int, largest: int, multiple: int) -> tuple[Run, ...]:
    """Cover [0, extent) by tiles of `largest`, then one of a multiple of `multiple`, then the rest."""
    runs = []
    start = 0
    for size in (largest, (extent % largest) // multiple * multiple, extent % largest % multiple):
        count = (extent - start) // size if size else 0
        count = count if size == largest else min(count, 1)
        if count:
            runs.append(Run(start, count, size))
            start += count * size
    return tuple(runs)


LEAST_COLUMNS = 16
"""Of a tile where vectors lie along a row: whole vectors on every target."""


def powers(extent: int, largest: int) -> tuple[Run, ...]:
    """Cover [0, extent) by tiles of powers of two up to `largest`, widest first: others fill registers badly.

    The last tile reaches back over what lies before it rather than be narrower than `LEAST_COLUMNS`, or than all of a
    shorter extent allows: what computes there must give the same when it is done twice.
    """
    runs = []
    start, size = 0, min(1 << largest.bit_length() - 1, 1 << extent.bit_length() - 1)
    least = min(LEAST_COLUMNS, size)
    while size >= least and start < extent:
        count = (extent - start) // size
        if count:
            runs.append(Run(start, count, size))
            start += count * size
        size //= 2
    return (*runs, Run(extent - least, 1, least)) if start < extent else tuple(runs)
