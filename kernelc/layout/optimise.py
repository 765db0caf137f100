"""From a grouped graph to one with layouts: the exact choice, the casts that it takes, the buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelc.graph import Graph, Group
from kernelc.layout.assign import Layout, assign, check_values
from kernelc.layout.choice import Places, Question, kernel_name, memory_name, question
from kernelc.layout.conflict import conflict
from kernelc.layout.forms import Form
from kernelc.layout.insert import Placed, insert
from kernelc.layout.problem import FORBIDDEN, Solution, Variable
from kernelc.layout.solve import solve
from kernelc.schedule.cost import Machine
from kernelfarm.errors import Code, FarmError


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen: the places of each memory by value name, the form of each kernel by group name."""

    question: Question
    solution: Solution
    places: Mapping[str, Places]
    kernels: Mapping[str, Form]


def lay_out(
    graph: Graph, groups: Sequence[Group], machine: Machine, demands: Mapping[str, Sequence[int]] | None = None
) -> tuple[Placed, Layout, Choice]:
    """The cheapest layouts of all values that groups read or write; `demands` as for `question`.

    Raises `FarmError` LAYOUT_INFEASIBLE with the nodes and constraints that contradict each other, MODEL_TOO_LARGE, and
    OPERATOR_NOT_LOWERED for a move or window that is not lowered.
    """
    check_values(graph, groups)
    choice = choose(question(graph, groups, machine, demands))
    placed = insert(choice.question, groups, machine, choice.places, choice.kernels)
    return placed, assign(placed.graph, placed.groups, placed.lanes, machine.lanes), choice


def choose(asked: Question) -> Choice:
    """The cheapest states; raises `FarmError` LAYOUT_INFEASIBLE."""
    solution = solve(asked.problem)
    if solution.cost >= FORBIDDEN:
        raise _infeasible(asked)
    return Choice(
        asked,
        solution,
        {root: states[solution.states[memory_name(root)]] for root, states in asked.memories.items()},
        {name: states[solution.states[kernel_name(name)]] for name, states in asked.kernels.items()},
    )


def _infeasible(asked: Question) -> FarmError:
    found = conflict(asked.problem)
    names = {one.name for one in found if isinstance(one, Variable)}
    names |= {name for one in found if not isinstance(one, Variable) for name in (one.first, one.second)}
    nodes = [group.anchor for name, group in asked.groups.items() if kernel_name(name) in names]
    return FarmError(
        Code.LAYOUT_INFEASIBLE,
        f"no layouts fit {', '.join(f'{node.name} (media.{node.op})' for node in nodes)} together",
        "; ".join(one.reason for one in found),
        "Take back one of these demands.",
        {"nodes": [node.name for node in nodes], "constraints": [one.reason for one in found]},
    )
