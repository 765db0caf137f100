"""Moves of elements as strides: which element of one value each element of another one is.

All of transpose, slice and reshape are views in this sense, and a move of a view is a view again wherever the sizes
divide. Nothing is computed, so that a chain of them is one pass over memory, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

Factor = tuple[int, int]
"""(size, stride): an index of a dimension, or a digit of one."""


@dataclass(frozen=True, slots=True)
class View:
    """Element i of a value, in row-major order over `sizes`, is element `offset` + sum of i_k * strides_k of another.

    The other one counts in row-major order too. Strides may be negative.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def factors(self) -> tuple[Factor, ...]:
        """(size, stride) of each index, outermost first."""
        return tuple(zip(self.sizes, self.strides, strict=True))

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.sizes)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest element that is read."""
        reaches = [(size - 1) * stride for size, stride in self.factors]
        return (
            self.offset + sum(reach for reach in reaches if reach < 0),
            self.offset + sum(reach for reach in reaches if reach > 0),
        )

    def is_whole(self, elements: int) -> bool:
        """Whether it is all `elements` of the other value in their order."""
        return self == whole((elements,))


def view_of(factors: Sequence[Factor], offset: int) -> View:
    """The view with these indices, those of size 1 left out and neighbours joined that count on."""
    joined: list[Factor] = []
    for size, stride in factors:
        if size == 1:
            continue
        if joined and joined[-1][1] == size * stride:
            joined[-1] = joined[-1][0] * size, stride
        else:
            joined.append((size, stride))
    return View(tuple(size for size, _ in joined), tuple(stride for _, stride in joined), offset)


def whole(shape: Sequence[int]) -> View:
    """A value of this shape as it is."""
    return view_of([(prod(shape), 1)], 0)


def cut(view: View, shape: Sequence[int]) -> list[list[Factor]] | None:
    """The indices of each dimension of `shape`, outermost first; None where one index goes over two dimensions."""
    left = list(view.factors)
    found: list[list[Factor]] = []
    for wanted in reversed(shape):
        taken: list[Factor] = []
        while wanted > 1:
            size, stride = left.pop()
            if wanted % size == 0:
                taken.insert(0, (size, stride))
                wanted //= size
            elif size % wanted == 0:
                taken.insert(0, (wanted, stride))
                left.append((size // wanted, stride * wanted))
                wanted = 1
            else:
                return None
        found.insert(0, taken)
    return found


def transposed(view: View, shape: Sequence[int], order: Sequence[int]) -> View | None:
    """The view whose dimension i is dimension order[i] of this one, which has `shape`; None where that is no view."""
    parts = cut(view, shape)
    return None if parts is None else view_of([factor for axis in order for factor in parts[axis]], view.offset)


def sliced(view: View, shape: Sequence[int], ranges: Sequence[range]) -> View | None:
    """The indices `ranges`, none empty, of each dimension of this view of `shape`; None where that is no view."""
    parts = cut(view, shape)
    if parts is None:
        return None
    factors, offset = [], view.offset
    for part, size, taken in zip(parts, shape, ranges, strict=True):
        if taken == range(size):
            factors += part
            continue
        joined = view_of(part, 0).factors
        if len(joined) > 1:
            return None
        stride = joined[0][1] if joined else 0
        factors.append((len(taken), stride * taken.step))
        offset += stride * taken.start
    return view_of(factors, offset)


def joined(views: Sequence[View], shape: Sequence[int], axis: int) -> View | None:
    """Views of one value that have the same `shape`, one after another along `axis`; None where that is no view."""
    parts = cut(views[0], shape)
    outer = _progression([view.offset for view in views])
    alike = all((view.sizes, view.strides) == (views[0].sizes, views[0].strides) for view in views)
    if parts is None or outer is None or not alike:
        return None
    before = [factor for part in parts[:axis] for factor in part]
    after = [factor for part in parts[axis:] for factor in part]
    return view_of([*before, *outer, *after], views[0].offset)


def _progression(items: Sequence[int]) -> list[Factor] | None:
    """The indices that count through `items` from the first one on, such as 2 by 10 and 2 by 1 for 0, 1, 10, 11."""
    if len(items) == 1:
        return []
    step, run = items[1] - items[0], 2
    if step == 0:
        return None
    while run < len(items) and items[run] - items[run - 1] == step:
        run += 1
    starts = items[::run]
    if list(items) != [start + number * step for start in starts for number in range(run)]:
        return None
    outer = _progression(starts)
    return None if outer is None else [*outer, (run, step)]
