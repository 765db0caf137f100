"""Choices of layouts for tests: problems, networks of any length, demands, a solver that tries everything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from kernelc import fusion
from kernelc.graph import Graph
from kernelc.layout.choice import Question, kernel_name, memory_name, question
from kernelc.layout.problem import FORBIDDEN, Problem
from kernelc.schedule.cost import Machine
from tests.support.backend_graphs import Maker

V4 = Machine(16, 32, 1 << 20, broadcast="memory")


def asked(graph: Graph, machine: Machine = V4, demands: dict[str, tuple[int, ...]] | None = None) -> Question:
    """The question of a graph, fused as the compiler does."""
    return question(graph, fusion.group(graph).groups, machine, demands)


def least_of_all(problem: Problem) -> int:
    """The least cost by trying every state."""
    names = [variable.name for variable in problem.variables]
    choices = product(*(range(len(variable.costs)) for variable in problem.variables))
    return min(min(problem.cost(dict(zip(names, states, strict=True))), FORBIDDEN) for states in choices)


def least_of_forms(found: Question) -> int:
    """The least cost by trying all forms of all kernels: each memory then has its own best places."""
    costs = {variable.name: variable.costs for variable in found.problem.variables}
    return min(_cost(found, costs, forms) for forms in _all_forms(found))


def _all_forms(found: Question) -> Iterator[dict[str, int]]:
    names = sorted(found.kernels)
    for states in product(*(range(len(found.kernels[name])) for name in names)):
        yield dict(zip(names, states, strict=True))


def _cost(found: Question, costs: dict[str, tuple[int, ...]], forms: dict[str, int]) -> int:
    total = sum(costs[kernel_name(name)][state] for name, state in forms.items())
    for root in found.memories:
        own = list(costs[memory_name(root)])
        for pair in found.problem.pairs:
            if pair.second == memory_name(root):
                row = pair.table[forms[pair.first.removeprefix("kernel ")]]
                own = [min(one + other, FORBIDDEN) for one, other in zip(own, row, strict=True)]
        total += min(own)
    return min(total, FORBIDDEN)


def network(kind: str, operators: int) -> Graph:
    """A network of about so many operators: "chain", "residual", "inception", "skips" or "dense"."""
    make = Maker()
    x = make.conv(make.input(1, 3, 32, 32), 24, 3, pads=(1, 1, 1, 1))
    return make.finish(_BLOCKS[kind](make, x, operators))


def _count(make: Maker) -> int:
    return len(make.builder.producers)


def _chain(make: Maker, x: str, operators: int) -> str:
    widths = (16, 24, 8, 40, 3)
    while _count(make) < operators:
        x = make.node("hard_swish", make.conv(x, widths[_count(make) % 5], 3, pads=(1, 1, 1, 1)))
    return x


def _residual(make: Maker, x: str, operators: int) -> str:
    while _count(make) < operators:
        inner = make.node("relu", make.conv(x, 48, 1))
        inner = make.node("relu", make.conv(inner, 48, 3, pads=(1, 1, 1, 1), group=48))
        x = make.node("add", make.conv(inner, 24, 1), x)
    return x


def _inception(make: Maker, x: str, operators: int) -> str:
    while _count(make) < operators:
        arms = [make.node("relu", make.conv(x, channels, 1)) for channels in (8, 16, 4, 24)]
        arms[1] = make.node("relu", make.conv(arms[1], 16, 3, pads=(1, 1, 1, 1)))
        x = make.node("concat", *arms, axis=1)
        x = make.conv(x, 24, 1)
    return x


def _skips(make: Maker, x: str, operators: int) -> str:
    """Down and up again, each level joined with the one across: pairs of far-away values."""
    waiting = []
    while _count(make) < operators // 2:
        x = make.node("relu", make.conv(x, 24, 3, pads=(1, 1, 1, 1)))
        waiting.append(x)
    while waiting and _count(make) < operators:
        x = make.node("concat", x, waiting.pop(), axis=1)
        x = make.node("relu", make.conv(x, 24, 1))
    return x


def _dense(make: Maker, x: str, operators: int) -> str:
    """Blocks of eight layers, each of which reads all before it."""
    while _count(make) < operators:
        values = [x]
        for _ in range(8):
            joined = make.node("concat", *values, axis=1) if len(values) > 1 else x
            values.append(make.node("relu", make.conv(joined, 8, 3, pads=(1, 1, 1, 1))))
        x = make.conv(make.node("concat", *values, axis=1), 24, 1)
    return x


_BLOCKS = {"chain": _chain, "residual": _residual, "inception": _inception, "skips": _skips, "dense": _dense}
KINDS = tuple(_BLOCKS)
