"""What reductions leave of a choice problem: elimination by tables of any rank, in a greedy order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

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
        others = tuple(sorted({other for factor in mine for other in factor.scope} - {number}))
        left, best = _least(mine, number, others, len(core.costs[number]))
        done.undo.append(remembered(number, others, best))
        if others:
            factors.append(_Factor(others, left))
        else:
            core.settle(int(left))
    done.width = max(done.width, order.width)
    core.costs, core.tables = {}, {}


@dataclass(frozen=True, slots=True)
class _Factor:
    """Costs of the states of some variables together, an axis for each."""

    scope: tuple[int, ...]
    table: Table


def _least(factors: list[_Factor], number: int, others: tuple[int, ...], count: int) -> tuple[Table, NDArray[np.int16]]:
    """The least cost over the states of a variable, for all states of the others, and the lowest state that has it."""
    scope = (number, *others)
    tables = [_spread(factor, scope) for factor in factors]
    left = _sum([table[0] for table in tables])
    best = np.zeros(left.shape, np.int16)
    for state in range(1, count):
        part = _sum([table[state] for table in tables])
        best = np.where(part < left, np.int16(state), best)
        left = np.minimum(left, part)
    return left, best


def _spread(factor: _Factor, scope: tuple[int, ...]) -> Table:
    """A factor with an axis for each variable of `scope`, of size 1 for those that it does not have."""
    axes = sorted(range(len(factor.scope)), key=lambda axis: scope.index(factor.scope[axis]))
    shape = [1] * len(scope)
    for axis in axes:
        shape[scope.index(factor.scope[axis])] = factor.table.shape[axis]
    return factor.table.transpose(axes).reshape(shape)


def _sum(tables: list[Table]) -> Table:
    """Their sum, smallest first; capped after as many as 64 bits hold."""
    total: Table = np.zeros((1,) * tables[0].ndim, np.int64)
    for number, table in enumerate(sorted(tables, key=lambda one: one.size), start=1):
        total = total + table
        if number % 8 == 0:
            total = capped(total)
    return capped(total)
