"""The choice of layouts as a problem: a variable for each memory and each kernel, costs of kernels and of casts.

Source: the document's objective, the sum over edges of what a change of layout costs and over vertices of what a kernel
costs by the layouts of what it reads and writes, under hard constraints: what kernels there are, one layout inside a
group, the caller's layout at the boundaries. A cast that several kernels read counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kernelc.graph import Graph, Group, Tensor, channel_axis
from kernelc.layout.assign import roots_of
from kernelc.layout.candidates import candidates, least_vector, name_of
from kernelc.layout.costs import cast_cost, group_cost, port_cost
from kernelc.layout.forms import Form, forms, wanted
from kernelc.layout.geometry import image, is_alias
from kernelc.layout.problem import FORBIDDEN, Pair, Problem, Variable
from kernelc.schedule.cost import Machine


@dataclass(frozen=True, slots=True)
class Places:
    """The layouts in which a memory exists, as lanes: `home` is what its kernel writes, `copies` are cast from it.

    A graph input has all of them from the caller's memory.
    """

    home: int
    copies: frozenset[int] = frozenset()

    @property
    def all(self) -> frozenset[int]:
        """Home and copies."""
        return self.copies | {self.home}


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be chosen: `memories` by value name and `kernels` by group name, with all states of each.

    `groups` are those that have kernels, `roots` the memory of each value.
    """

    graph: Graph
    groups: Mapping[str, Group]
    roots: Mapping[str, str]
    memories: Mapping[str, tuple[Places, ...]]
    kernels: Mapping[str, tuple[Form, ...]]
    problem: Problem


def port_lanes(tensor: Tensor) -> int:
    """Lanes of the caller's row-major memory: channels come first, but last in a sequence [1, L, C]."""
    return image(tensor)[0] if channel_axis(len(tensor.shape)) != 1 else 1


def question(
    graph: Graph, groups: Sequence[Group], machine: Machine, demands: Mapping[str, Sequence[int]] | None = None
) -> Question:
    """The problem of a grouped graph; `demands` are the lanes that the kernels may write some values in."""
    roots, demands = roots_of(graph, groups), demands or {}
    active = {group.name: group for group in groups if not is_alias(graph, group.anchor)}
    lanes = {root: candidates(image(graph.tensors[root])[0], machine.lanes) for root in dict.fromkeys(roots.values())}
    readers = dict.fromkeys(lanes, 0)
    for group in active.values():
        for root in {roots[name] for name in group.inputs if name in roots}:
            readers[root] += 1
    for port in graph.outputs:
        if port.tensor in roots:
            readers[roots[port.tensor]] += 1
    memories = {root: _places(found, readers[root], root in graph.input_tensors) for root, found in lanes.items()}
    kernels = {name: _forms(graph, group, machine, roots, lanes) for name, group in active.items()}
    variables = [_memory(graph, machine, roots, root, places, demands) for root, places in memories.items()]
    pairs: list[Pair] = []
    for name, group in active.items():
        costs = tuple(group_cost(graph, group, machine, form) for form in kernels[name])
        variables.append(Variable(kernel_name(name), costs))
        pairs += _edges(graph, group, roots, memories, kernels[name])
    return Question(graph, active, roots, memories, kernels, Problem(tuple(variables), tuple(pairs)))


def memory_name(root: str) -> str:
    """Name of the variable of a memory."""
    return f"value {root}"


def kernel_name(group: str) -> str:
    """Name of the variable of a group's kernel."""
    return f"kernel {group}"


def _places(lanes: tuple[int, ...], readers: int, is_input: bool) -> tuple[Places, ...]:
    """All sets of layouts that the readers may ask for; of an input the lowest is its home."""
    found = []
    for home in lanes:
        others = [one for one in lanes if one != home and (not is_input or lanes.index(one) > lanes.index(home))]
        for count in range(min(readers, len(others)) + 1):
            found += [Places(home, frozenset(chosen)) for chosen in combinations(others, count)]
    return tuple(found)


def _forms(
    graph: Graph, group: Group, machine: Machine, roots: Mapping[str, str], lanes: Mapping[str, tuple[int, ...]]
) -> tuple[Form, ...]:
    first = next(name for name in group.anchor.operands if name not in graph.weights)
    return forms(graph, group, lanes[roots[first]], lanes[group.output], least_vector(machine.lanes))


def _memory(
    graph: Graph,
    machine: Machine,
    roots: Mapping[str, str],
    root: str,
    places: tuple[Places, ...],
    demands: Mapping[str, Sequence[int]],
) -> Variable:
    """Costs of the casts of a memory, those at the boundaries of the graph included."""
    allowed = demands.get(root)
    ports = [port for port in graph.outputs if roots.get(port.tensor) == root]

    def cost(found: Places) -> int:
        if allowed is not None and found.home not in allowed:
            return FORBIDDEN
        size = image(graph.tensors[root])
        if root in graph.input_tensors:
            port = port_lanes(graph.tensors[root])
            total = sum(port_cost(machine, size, port, one) for one in found.all)
        else:
            total = sum(cast_cost(machine, size, found.home, copy) for copy in found.copies)
        return total + sum(
            port_cost(machine, size, port_lanes(graph.tensors[port.tensor]), out_of(graph, machine, port.tensor, found))
            for port in ports
        )

    names = " or ".join(name_of(one) for one in allowed or ())
    reason = "" if allowed is None else f"{root} must be written as {names}"
    return Variable(memory_name(root), tuple(cost(found) for found in places), reason)


def out_of(graph: Graph, machine: Machine, name: str, places: Places) -> int:
    """The layout from which a graph output is copied to the caller: the cheapest, the home first."""
    size, port = image(graph.tensors[name]), port_lanes(graph.tensors[name])
    ordered = [places.home, *sorted(places.copies)]
    return min(ordered, key=lambda lanes: port_cost(machine, size, port, lanes))


def _edges(
    graph: Graph,
    group: Group,
    roots: Mapping[str, str],
    memories: Mapping[str, tuple[Places, ...]],
    kernels: tuple[Form, ...],
) -> list[Pair]:
    """What a kernel reads must be there in its layout, and it writes the home of its result."""
    asked: dict[str, list[set[int]]] = {}
    for number, form in enumerate(kernels):
        for name, lanes in wanted(graph, group, form).items():
            asked.setdefault(roots[name], [set() for _ in kernels])[number] |= lanes
    pairs = []
    for root, sets in asked.items():
        table = tuple(tuple(0 if lanes <= places.all else FORBIDDEN for places in memories[root]) for lanes in sets)
        pairs.append(Pair(kernel_name(group.name), memory_name(root), table, f"{group.name} reads {root}"))
    written = memories[group.output]
    table = tuple(
        tuple(0 if form.written == places.home else FORBIDDEN for places in written) for form in kernels
    )  # fmt: skip
    reason = f"{group.name} writes {group.output}"
    return [*pairs, Pair(kernel_name(group.name), memory_name(group.output), table, reason)]
