"""A choice of one state per variable, with integer costs of states and of pairs: what the optimiser solves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FORBIDDEN = 1 << 58
"""Cost of what must not be. Real costs and their sum stay below; three of it still fit 64 bits."""

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Variable:
    """One choice: the cost of each state, lowest id first. `reason` says why states are forbidden, where some are."""

    name: str
    costs: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Costs of two variables' states together, `table[first][second]`. `reason`: why combinations are forbidden."""

    first: str
    second: str
    table: tuple[tuple[int, ...], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Variables and pairs in any order; a name occurs once, and so does a pair of names."""

    variables: tuple[Variable, ...]
    pairs: tuple[Pair, ...]

    def cost(self, states: Mapping[str, int]) -> int:
        """Cost of one assignment; at least `FORBIDDEN` where it breaks a constraint."""
        total = sum(variable.costs[states[variable.name]] for variable in self.variables)
        return total + sum(pair.table[states[pair.first]][states[pair.second]] for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class Steps:
    """How a problem was solved. `width`: most neighbours that a variable had when it was eliminated.

    `reduced` variables had at most two; `dominated` states were left out because another one is never worse;
    `eliminated` variables took a larger table; `branched` is the number of choices tried where tables would not fit.
    """

    width: int = 0
    reduced: int = 0
    dominated: int = 0
    eliminated: int = 0
    branched: int = 0

    def __add__(self, other: Steps) -> Steps:
        """Both."""
        return Steps(
            max(self.width, other.width),
            self.reduced + other.reduced,
            self.dominated + other.dominated,
            self.eliminated + other.eliminated,
            self.branched + other.branched,
        )


@dataclass(frozen=True, slots=True)
class Solution:
    """A state for each variable, and the cost of all. `bound` is proved to be no more than the least cost there is."""

    states: Mapping[str, int]
    cost: int
    bound: int
    steps: Steps

    @property
    def proved(self) -> bool:
        """Whether nothing is cheaper."""
        return self.bound == self.cost


States = dict[int, int]
"""States of variables by number."""


class Core:
    """A problem while it is reduced: variables by number (the order of names), tables both ways, capped sums.

    `constant` is the cost of what was decided and taken out.
    """

    def __init__(self, costs: Sequence[Table], pairs: Iterable[tuple[int, int, Table]]) -> None:
        self.constant = 0
        self.costs: dict[int, Table] = dict(enumerate(costs))
        self.tables: dict[int, dict[int, Table]] = {number: {} for number in self.costs}
        for first, second, table in pairs:
            self.join(first, second, table)

    def copy(self) -> Core:
        """The same, to be changed on its own: tables are never changed in place."""
        made = Core([], [])
        made.constant = self.constant
        made.costs = dict(self.costs)
        made.tables = {number: dict(tables) for number, tables in self.tables.items()}
        return made

    def join(self, first: int, second: int, table: Table) -> None:
        """Add costs of a pair."""
        before = self.tables[first].get(second)
        table = table if before is None else capped(before + table)
        self.tables[first][second] = table
        self.tables[second][first] = table.T

    def settle(self, cost: int) -> None:
        """Add to the constant."""
        self.constant = min(self.constant + cost, FORBIDDEN)

    def charge(self, number: int, costs: Table) -> None:
        """Add costs of states."""
        self.costs[number] = capped(self.costs[number] + costs)

    def remove(self, number: int) -> tuple[Table, dict[int, Table]]:
        """Take a variable out; what it had."""
        for other in self.tables[number]:
            del self.tables[other][number]
        return self.costs.pop(number), self.tables.pop(number)

    def keep(self, number: int, states: NDArray[np.intp]) -> None:
        """Leave a variable only some of its states."""
        self.costs[number] = self.costs[number][states]
        for other, table in list(self.tables[number].items()):
            self.tables[number][other] = table[states]
            self.tables[other][number] = table[states].T


def capped(table: Table) -> Table:
    """No more than `FORBIDDEN` anywhere, so that sums never overflow."""
    return np.minimum(table, FORBIDDEN)


def core_of(problem: Problem, names: Sequence[str]) -> Core:
    """The problem with its variables numbered in the order of `names`."""
    costs = {variable.name: np.array(variable.costs, np.int64) for variable in problem.variables}
    numbers = {name: number for number, name in enumerate(names)}
    ordered = sorted(problem.pairs, key=lambda pair: tuple(sorted((numbers[pair.first], numbers[pair.second]))))
    pairs = [(numbers[pair.first], numbers[pair.second], np.array(pair.table, np.int64)) for pair in ordered]
    return Core([costs[name] for name in names], pairs)
