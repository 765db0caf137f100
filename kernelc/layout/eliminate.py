"""What reductions leave of a choice problem: elimination by tables of any rank, in a greedy order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from kernelc.layout.problem import Core, Table, capped
from kernelc.layout.reduce import Reduction, remembered

MOST_ENTRIES = 1 << 22
"""Entries of the largest table that is built: 32 MiB."""


@dataclass(frozen=True, slots=True)
class Order:
    """In which order variables go, entries of all tables and of the largest, the most neighbours of one that goes."""

    numbers: tuple[int, ...]
    entries: int
    largest: int
    width: int

    @property
    def fits(self) -> bool:
        """Whether all variables may go in this order."""
        return self.largest <= MOST_ENTRIES


def order_of(core: Core) -> Order:
    """Always the variable that takes the smallest table, the lowest number of those. Stops beyond `MOST_ENTRIES`."""
    sizes = {number: len(costs) for number, costs in core.costs.items()}
    around = {number: set(tables) for number, tables in core.tables.items()}
    numbers: list[int] = []
    total, largest, width = 0, 1, 0
    while around and largest <= MOST_ENTRIES:
        entries = {number: sizes[number] * prod(sizes[other] for other in others) for number, others in around.items()}
        number = min(entries, key=lambda one: (entries[one], one))
        others = around.pop(number)
        for other in others:
            around[other] |= others - {other}
            around[other].discard(number)
        numbers.append(number)
        total += entries[number]
        largest, width = max(largest, entries[number]), max(width, len(others))
    return Order(tuple(numbers), total, largest, width)


def eliminate(core: Core, done: Reduction, order: Order) -> None:
    """Take out all variables in an order; the least cost goes to the core's constant."""
    factors = [_Factor((number,), costs) for number, costs in core.costs.items()]
    for first, tables in core.tables.items():
        factors += [_Factor((first, second), table) for second, table in tables.items() if first < second]
    for number in order.numbers:
        mine = [factor for factor in factors if number in factor.scope]
        factors = [factor for factor in factors if number not in factor.scope]
        scope = (*sorted({other for factor in mine for other in factor.scope} - {number}), number)
        table = _joined(mine, scope)
        best = table.argmin(axis=-1)
        done.undo.append(remembered(number, scope[:-1], best))
        left = np.take_along_axis(table, best[..., None], axis=-1)[..., 0]
        if scope[:-1]:
            factors.append(_Factor(scope[:-1], left))
        else:
            core.settle(int(left))
    done.width = max(done.width, order.width)
    core.costs, core.tables = {}, {}


@dataclass(frozen=True, slots=True)
class _Factor:
    """Costs of the states of some variables together, an axis for each."""

    scope: tuple[int, ...]
    table: Table


def _joined(factors: list[_Factor], scope: tuple[int, ...]) -> Table:
    total: Table = np.zeros((1,) * len(scope), np.int64)
    for factor in factors:
        axes = sorted(range(len(factor.scope)), key=lambda axis: scope.index(factor.scope[axis]))
        shape = [1] * len(scope)
        for axis in axes:
            shape[scope.index(factor.scope[axis])] = factor.table.shape[axis]
        total = capped(total + factor.table.transpose(axes).reshape(shape))
    return total
