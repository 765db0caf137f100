"""Why no layouts fit: a smallest set of constraints that cannot hold together.

Source: U. Junker, "QuickXplain: preferred explanations and relaxations for over-constrained problems" (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelc.layout.problem import FORBIDDEN, Pair, Problem, Variable
from kernelc.layout.solve import solve

Constraint = Variable | Pair


def conflict(problem: Problem) -> tuple[Constraint, ...]:
    """Variables and pairs whose constraints contradict each other; without any one of them they would not.

    Nothing where some states are allowed. Costs do not matter; order is that of names.
    """
    bare = _without_costs(problem)
    every: list[Constraint] = [one for one in bare.variables if max(one.costs)]
    every += [one for one in bare.pairs if _binds(one)]
    every.sort(key=_names)
    if _holds(bare, every):
        return ()
    return tuple(sorted(_smallest(bare, [], False, every), key=_names))


def _names(one: Constraint) -> tuple[str, ...]:
    return (one.name,) if isinstance(one, Variable) else (one.first, one.second)


def _binds(pair: Pair) -> bool:
    return any(cost for row in pair.table for cost in row)


def _without_costs(problem: Problem) -> Problem:
    def only(costs: Sequence[int]) -> tuple[int, ...]:
        return tuple(FORBIDDEN if cost >= FORBIDDEN else 0 for cost in costs)

    variables = tuple(replace(one, costs=only(one.costs)) for one in problem.variables)
    return Problem(variables, tuple(replace(one, table=tuple(map(only, one.table))) for one in problem.pairs))


def _holds(bare: Problem, constraints: Sequence[Constraint]) -> bool:
    """Whether some states satisfy these constraints alone."""
    kept = {_names(one) for one in constraints}
    variables = tuple(
        one if _names(one) in kept else replace(one, costs=(0,) * len(one.costs)) for one in bare.variables
    )
    return solve(Problem(variables, tuple(one for one in bare.pairs if _names(one) in kept))).cost < FORBIDDEN


def _smallest(bare: Problem, base: list[Constraint], grew: bool, rest: list[Constraint]) -> list[Constraint]:
    if grew and not _holds(bare, base):
        return []
    if len(rest) == 1:
        return rest
    half = len(rest) // 2
    right = _smallest(bare, base + rest[:half], True, rest[half:])
    left = _smallest(bare, base + right, bool(right), rest[:half])
    return left + right
