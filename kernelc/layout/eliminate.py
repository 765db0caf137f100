"""What reductions leave of a choice problem: elimination by tables of any rank, in a greedy order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from kernelc.layout.problem import FORBIDDEN, Core, Table
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

    def entries_of(number: int) -> int:
        return sizes[number] * prod(sizes[other] for other in around[number])

    waiting = [(entries_of(number), number) for number in around]
    heapq.heapify(waiting)
    numbers: list[int] = []
    total, largest, width = 0, 1, 0
    while around and largest <= MOST_ENTRIES:
        entries, number = heapq.heappop(waiting)
        if number not in around or entries != entries_of(number):
            continue
        others = around.pop(number)
        for other in others:
            around[other] |= others - {other}
            around[other].discard(number)
        for other in others:
            heapq.heappush(waiting, (entries_of(other), other))
        numbers.append(number)
        total += entries
        largest, width = max(largest, entries), max(width, len(others))
    return Order(tuple(numbers), total, largest, width)


def eliminate(core: Core, done: Reduction, order: Order) -> None:
    """Take out all variables in an order; the least cost goes to the core's constant."""
    factors: dict[int, list[_Factor]] = {number: [_Factor((number,), costs)] for number, costs in core.costs.items()}
    for first, tables in core.tables.items():
        for second, table in tables.items():
            if first < second:
                _add(factors, _Factor((first, second), table))
    for number in order.numbers:
        mine = factors.pop(number)
        others = tuple(sorted({other for factor in mine for other in factor.scope} - {number}))
        for other in others:
            factors[other] = [factor for factor in factors[other] if number not in factor.scope]
        left, best = _least(mine, number, others, len(core.costs[number]))
        done.undo.append(remembered(number, others, best))
        if others:
            _add(factors, _Factor(others, left))
        else:
            core.settle(int(left))
    done.width = max(done.width, order.width)
    core.costs, core.tables = {}, {}


@dataclass(frozen=True, slots=True)
class _Factor:
    """Costs of the states of some variables together, an axis for each."""

    scope: tuple[int, ...]
    table: Table


def _add(factors: dict[int, list[_Factor]], factor: _Factor) -> None:
    for number in factor.scope:
        factors[number].append(factor)


def _least(factors: list[_Factor], number: int, others: tuple[int, ...], count: int) -> tuple[Table, NDArray[np.int16]]:
    """The least cost over the states of a variable, for all states of the others, and the lowest state that has it."""
    scope = (number, *others)
    tables = [_spread(factor, scope) for factor in factors]
    left = _sum([table[0] for table in tables])
    best = np.zeros(left.shape, np.int16)
    for state in range(1, count):
        part = _sum([table[state] for table in tables])
        np.copyto(best, np.int16(state), where=part < left)
        np.minimum(left, part, out=left)
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
        if np.broadcast_shapes(total.shape, table.shape) == total.shape:
            total += table
        else:
            total = total + table
        if number % 8 == 0:
            np.minimum(total, FORBIDDEN, out=total)
    return np.minimum(total, FORBIDDEN, out=total)
