"""The exact minimum of a choice problem: reductions, then elimination, then branch and bound where no table fits.

The result depends on names, states and costs only, not on the order in which they are given: variables are numbered by
name, equal costs take the lowest state, and limits count steps, not time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelc.layout.eliminate import eliminate, order_of
from kernelc.layout.problem import FORBIDDEN, Core, Problem, Solution, States, Steps, capped, core_of
from kernelc.layout.reduce import Reduction, fix, reduce

MOST_ENTRIES = 1 << 28
"""Entries of tables, over all branches, after which branch and bound gives up the proof: some seconds."""
_BRANCH = 1 << 16
"""What a branch counts for."""


def solve(problem: Problem, most_entries: int = MOST_ENTRIES) -> Solution:
    """The cheapest states.

    The cost is at least `FORBIDDEN` where no states are allowed. Beyond `most_entries` it is the best that was found,
    and `bound` says how little any other may cost.
    """
    names = sorted(variable.name for variable in problem.variables)
    search = _Search(most_entries)
    found = search.best(core_of(problem, names), FORBIDDEN)
    states = {name: found.states.get(number, 0) for number, name in enumerate(names)}
    cost = problem.cost(states)
    return Solution(states, cost, min(cost, found.bound), search.steps)


@dataclass(frozen=True, slots=True)
class _Found:
    """The best states of a core and what they cost; nothing costs less than `bound`.

    No states and a cost of `FORBIDDEN` where nothing below the caller's limit was found.
    """

    states: States
    cost: int
    bound: int


@dataclass(slots=True)
class _Search:
    most: int
    steps: Steps = field(default_factory=Steps)
    entries: int = 0
    succeeded: bool = False

    @property
    def is_over(self) -> bool:
        """Whether there is a result and no choice is left to be tried."""
        return self.succeeded and self.entries >= self.most

    def best(self, core: Core, limit: int) -> _Found:
        """The cheapest states of a core, which is used up, if they cost less than `limit`."""
        done = Reduction()
        reduce(core, done)
        order = order_of(core)
        self.entries += order.entries if order.fits else _BRANCH
        eliminated = len(core.costs) if order.fits else 0
        if order.fits:
            eliminate(core, done, order)
        self.steps += Steps(done.width, done.reduced, done.dominated, eliminated)
        found = _Found({}, core.constant, core.constant) if order.fits else self._branch(core, limit)
        if found.cost >= limit:
            return _Found({}, FORBIDDEN, found.bound)
        self.succeeded = True
        states = dict(found.states)
        for undo in reversed(done.undo):
            undo(states)
        return _Found(states, found.cost, found.bound)

    def _branch(self, core: Core, limit: int) -> _Found:
        """Fix one variable to each state in turn, the most promising first."""
        number = max(core.costs, key=lambda one: (len(core.tables[one]), len(core.costs[one]), -one))
        least = _least(core, number)
        best = _Found({}, FORBIDDEN, FORBIDDEN)
        for state in sorted(range(len(least)), key=lambda one: (least[one], one)):
            ceiling, bound = min(limit, best.cost), least[state]
            if bound < ceiling and not self.is_over:
                self.steps += Steps(branched=1)
                part, child = core.copy(), Reduction()
                fix(part, child, number, state)
                found = self.best(part, ceiling)
                bound = max(bound, found.bound)
                if found.cost < ceiling:
                    best = _Found(found.states | {number: state}, found.cost, best.bound)
            best = _Found(best.states, best.cost, min(best.bound, bound))
        return best


def _least(core: Core, number: int) -> list[int]:
    """For each state of a variable a cost that no assignment with it falls below.

    What a pair costs at least with a state of its one end is counted there, what it costs beyond that at least with a
    state of the other end is counted there; pairs of the variable are counted whole.
    """
    costs, tables = core.costs[number], core.tables[number]
    total = np.full(len(costs), core.constant, np.int64) + costs
    rest = dict(core.costs)
    for first, row in core.tables.items():
        for second, table in row.items():
            if number not in (first, second) and first < second:
                least = table.min(axis=1)
                rest[first] = capped(rest[first] + least)
                rest[second] = capped(rest[second] + (table - least[:, None]).min(axis=0))
    for other, others in rest.items():
        if other == number:
            continue
        rows = capped(tables[other] + others[None, :]) if other in tables else others[None, :]
        total = capped(total + rows.min(axis=1))
    return [int(value) for value in total]
