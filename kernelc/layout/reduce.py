"""Exact reductions of a choice problem: variables with at most two neighbours go, and so do dominated states.

Source: B. Scholz and E. Eckstein, "Register allocation for irregular architectures" (2002), reductions R0, R1, R2;
R. F. Goldstein, "Efficient rotamer elimination" (1994), dominance.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelc.layout.problem import FORBIDDEN, Core, States, Table, capped

Undo = Callable[[States], None]
"""Gives an eliminated variable its state, given those of the variables that outlived it."""


@dataclass(slots=True)
class Reduction:
    """What was done to a core so far; `undo` runs from its end to its beginning."""

    undo: list[Undo] = field(default_factory=list)
    width: int = 0
    reduced: int = 0
    dominated: int = 0


def reduce(core: Core, done: Reduction) -> None:
    """Reduce a core until every variable has three neighbours and no state is dominated.

    Lowest degree first, then lowest number; equal costs take the lowest state: the result depends on nothing else.
    """
    _by_degree(core, done, sorted(core.costs))
    while touched := _dominance(core, done):
        _by_degree(core, done, touched)


def _by_degree(core: Core, done: Reduction, numbers: list[int]) -> None:
    waiting = [(len(core.tables[number]), number) for number in numbers if number in core.costs]
    heapq.heapify(waiting)
    while waiting:
        degree, number = heapq.heappop(waiting)
        if number not in core.costs or degree != len(core.tables[number]) or degree > 2:
            continue
        around = sorted(core.tables[number])
        _eliminate(core, done, number, around)
        for other in around:
            heapq.heappush(waiting, (len(core.tables[other]), other))


def _eliminate(core: Core, done: Reduction, number: int, around: list[int]) -> None:
    """Take out a variable with at most two neighbours; what its best state costs goes to them."""
    costs, tables = core.remove(number)
    if not around:
        state = int(costs.argmin())
        core.settle(int(costs[state]))
        done.undo.append(lambda states: states.update({number: state}))
    elif len(around) == 1:
        (other,) = around
        sums = capped(costs[:, None] + tables[other])
        core.charge(other, sums.min(axis=0))
        done.undo.append(remembered(number, (other,), sums.argmin(axis=0)))
    else:
        one, two = around
        sums = capped((costs[:, None] + tables[one])[:, :, None] + tables[two][:, None, :])
        core.join(one, two, sums.min(axis=0))
        done.undo.append(remembered(number, (one, two), sums.argmin(axis=0)))
    done.width = max(done.width, len(around))
    done.reduced += 1


def remembered(number: int, others: tuple[int, ...], best: NDArray[np.signedinteger]) -> Undo:
    """The state of a variable is looked up by those of `others`."""

    def undo(states: States) -> None:
        states[number] = int(best[tuple(states[other] for other in others)])

    return undo


def _dominance(core: Core, done: Reduction) -> list[int]:
    """Leave out each state that another one of its variable is never dearer than; the variables that changed.

    A variable of one state left is fixed: it goes, and its neighbours have fewer of them.
    """
    touched: set[int] = set()
    for number in sorted(core.costs):
        kept = _undominated(core, number)
        if len(kept) == len(core.costs[number]):
            continue
        done.dominated += len(core.costs[number]) - len(kept)
        states = np.array(kept)
        core.keep(number, states)
        done.undo.append(_renumbered(number, kept))
        touched |= {number, *core.tables[number]}
        if len(kept) == 1:
            fix(core, done, number, 0)
            touched.discard(number)
    return sorted(touched)


def fix(core: Core, done: Reduction, number: int, state: int) -> None:
    """Give a variable a state and take it out."""
    costs, tables = core.remove(number)
    core.settle(int(costs[state]))
    for other, table in tables.items():
        core.charge(other, table[state])
    done.undo.append(lambda states: states.update({number: state}))


def _renumbered(number: int, kept: list[int]) -> Undo:
    def undo(states: States) -> None:
        states[number] = kept[states[number]]

    return undo


def _undominated(core: Core, number: int) -> list[int]:
    costs = core.costs[number]
    least = costs[:, None] - costs[None, :]  # [a, b]: how much dearer a is than b, at least
    for table in core.tables[number].values():
        least = np.clip(least + _least_difference(table), -FORBIDDEN, FORBIDDEN)
    kept = list(range(len(costs)))
    for state in range(len(costs) - 1, -1, -1):  # of equal states the lowest stays
        if any(least[state, other] >= 0 for other in kept if other != state):
            kept.remove(state)
    return kept


def _least_difference(table: Table) -> Table:
    found: Table = (table[:, None, :] - table[None, :, :]).min(axis=2)
    return found
