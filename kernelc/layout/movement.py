"""A move of elements between two images: which channel, row and column each element of the result comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelc.graph import Graph, Node
from kernelc.media import views
from kernelc.media.views import Factor, View

CHANNEL, ROW, COLUMN = range(3)
AXES = {4: (CHANNEL, ROW, COLUMN), 3: (COLUMN, CHANNEL), 2: (CHANNEL,)}
"""What the dimensions after the batch are, by rank: [N, C, H, W], [N, L, C], [N, C]."""

Place = tuple[int, int, int]
"""Channel, row and column, or steps along them."""


@dataclass(frozen=True, slots=True)
class Digit:
    """An index of an axis, or one digit of it: each count goes `step` further in the source."""

    size: int
    step: Place


@dataclass(frozen=True, slots=True)
class Movement:
    """For each axis of the result (channel, row, column) its digits, outermost first; element 0 is at `origin`."""

    axes: tuple[tuple[Digit, ...], tuple[Digit, ...], tuple[Digit, ...]]
    origin: Place

    @property
    def is_straight(self) -> bool:
        """Whether each element stays at its channel, row and column."""
        steps = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        moved = [
            len(digits) > 1 or any(digit.step != step for digit in digits)
            for digits, step in zip(self.axes, steps, strict=True)
        ]
        return self.origin == (0, 0, 0) and not any(moved)

    @property
    def mixes_channels(self) -> bool:
        """Whether the source channel depends on the row or column of the result: its numbers are copied one by one."""
        _, rows, columns = self.axes
        return any(digit.step[CHANNEL] for digit in (*rows, *columns))

    @property
    def interleaved(self) -> int:
        """Of how many rows of the source one of the result has a number in turn; 1: of one, number by number.

        0 where neither is so, and vectors along the columns of both cannot be had.
        """
        columns, along = self.axes[COLUMN], (0, 0, 1)
        if columns and columns[-1].step == along:
            return 1
        if len(columns) < 2 or columns[-2].step != along or columns[-1].step[COLUMN]:
            return 0
        return columns[-1].size if columns[-1].size <= MOST_INTERLEAVED else 0


MOST_INTERLEAVED = 8
"""Each number of a vector is taken from one of so many others, at a step for each."""


def straight(channels: int, height: int, width: int) -> Movement:
    """The move that leaves each element of an image at its place."""
    return Movement(
        ((Digit(channels, (1, 0, 0)),), (Digit(height, (0, 1, 0)),), (Digit(width, (0, 0, 1)),)), (0, 0, 0)
    )  # fmt: skip


def movement(graph: Graph, node: Node) -> Movement | None:
    """What a `reshape` or `rearrange` between images does; None where rows, columns and channels do not say it."""
    before, after = graph.tensors[node.inputs[0]].static_shape, graph.result(node).static_shape
    view = views.whole(before)
    if node.op == "rearrange":
        view = View(node.integers("sizes"), node.integers("strides"), node.integer("offset"))
    parts = views.cut(view, after)
    if parts is None:
        return None
    source = _Source(before)
    axes: list[tuple[Digit, ...]] = [(), (), ()]
    for axis, part in zip(AXES[len(after)], parts[1:], strict=True):
        digits = [source.digits(factor) for factor in part]
        known = [one for found in digits if found is not None for one in found]
        if None in digits:
            return None
        axes[axis] = tuple(known)
    found = Movement((axes[0], axes[1], axes[2]), source.place(view.offset))
    return found if source.holds(found) else None


class _Source:
    """The axes of a value in row-major order."""

    def __init__(self, shape: Sequence[int]) -> None:
        stride = 1
        self.extents, self.strides = [1, 1, 1], [0, 0, 0]
        for axis, size in zip(reversed(AXES[len(shape)]), reversed(shape[1:]), strict=True):
            self.extents[axis], self.strides[axis] = size, stride
            stride *= size

    def place(self, element: int) -> Place:
        """Channel, row and column of an element."""
        found = [
            element // stride % extent if stride else 0
            for stride, extent in zip(self.strides, self.extents, strict=True)
        ]
        return found[0], found[1], found[2]

    def digits(self, factor: Factor) -> list[Digit] | None:
        """An index in digits, each along one axis."""
        size, stride = factor
        axes = [axis for axis in range(3) if self.extents[axis] > 1 and self.strides[axis] <= abs(stride)]
        axis = max(axes, key=lambda one: self.strides[one], default=None)
        if axis is None or stride % self.strides[axis]:
            return None
        step, extent = stride // self.strides[axis], self.extents[axis]
        digit = Digit(size, _along(axis, step))
        if (size - 1) * abs(step) < extent:
            return [digit]
        inner, rest = divmod(extent, abs(step))
        if rest or size % inner:
            return None
        outer = self.digits((size // inner, stride * inner))
        return None if outer is None else [*outer, Digit(inner, digit.step)]

    def holds(self, found: Movement) -> bool:
        """Whether no sum of steps leaves an axis, so that no digit carries."""
        for axis, extent in enumerate(self.extents):
            reaches = [(digit.size - 1) * digit.step[axis] for digits in found.axes for digit in digits]
            low = found.origin[axis] + sum(reach for reach in reaches if reach < 0)
            high = found.origin[axis] + sum(reach for reach in reaches if reach > 0)
            if low < 0 or high >= extent:
                return False
        return True


def _along(axis: int, step: int) -> Place:
    return (step if axis == 0 else 0, step if axis == 1 else 0, step if axis == 2 else 0)
