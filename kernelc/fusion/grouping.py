"""Groups of a graph: candidates under rules, the best choice of them, and a reason for every node that stays apart."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelc.fusion import choice, library
from kernelc.fusion.candidates import Candidate, Matcher
from kernelc.fusion.capability import EPILOGUE
from kernelc.fusion.rule import Rule
from kernelc.graph import Graph, Group, Node


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that did not join the group of a node before it, and why."""

    group: str
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class FusionResult:
    """Groups in execution order, which hold every node once; refusals in the order of their groups.

    `rules` has the rule of each group of more than one node by its name; `resting` the rules that could not match,
    `matches` for each of the others how many legal chains it is the best rule of, chosen or not.
    """

    groups: tuple[Group, ...]
    refusals: tuple[Refusal, ...]
    rules: Mapping[str, Rule] = field(default_factory=dict)
    resting: tuple[Rule, ...] = ()
    matches: Mapping[str, int] = field(default_factory=dict)


def group(graph: Graph, rules: Sequence[Rule] | None = None, *, on_chip_bytes: int = 0) -> FusionResult:
    """The groups of a graph under `rules` (the farm's own); the same graph and rules give the same groups."""
    used = library.builtin() if rules is None else rules
    matcher = Matcher(graph, used, on_chip_bytes)
    candidates = list(matcher.candidates())
    chosen = choice.choose(len(graph.nodes), candidates)
    held = {position for candidate in chosen for position in candidate.nodes}
    chains: list[tuple[tuple[int, ...], Candidate | None]] = [(candidate.nodes, candidate) for candidate in chosen]
    chains += [((position,), None) for position in range(len(graph.nodes)) if position not in held]
    groups: list[Group] = []
    ruled: dict[str, Rule] = {}
    for positions, candidate in _in_order(matcher, chains):
        nodes = [graph.nodes[position] for position in positions]
        name = f"g{len(groups)}_{nodes[0].op}"
        groups.append(Group(name, nodes[0], tuple(nodes[1:]), _inputs(nodes), nodes[-1].outputs[0]))
        if candidate is not None:
            ruled[name] = candidate.rule
    refusals = tuple(_refusals(matcher, groups))
    resting = tuple(rule for rule in used if rule.lacks)
    matches = {rule.name: 0 for rule in used if not rule.lacks}
    for candidate in candidates:
        matches[candidate.rule.name] += 1
    return FusionResult(tuple(groups), refusals, ruled, resting, matches)


def to_text(result: FusionResult) -> str:
    """The result as lines of text: what a stage digest is made of."""
    lines = []
    for entry in result.groups:
        nodes, inputs = " + ".join(node.name for node in entry.nodes), ", ".join(entry.inputs)
        lines.append(f"{entry.name}: {nodes} ({inputs}) -> {entry.output}{_by(result.rules.get(entry.name))}")
    lines += [f"refused {refusal.node} after {refusal.group}: {refusal.reason}" for refusal in result.refusals]
    lines += [f"rule {rule.name} rests: the dialect has no {', '.join(rule.lacks)}" for rule in result.resting]
    return "".join(f"{line}\n" for line in lines)


def _by(rule: Rule | None) -> str:
    if rule is None:
        return ""
    return f" by {rule.name}, benefit {rule.benefit}" + (f", hint {rule.hint}" if rule.hint else "")


Chain = tuple[tuple[int, ...], Candidate | None]


def _in_order(matcher: Matcher, chains: Sequence[Chain]) -> Iterator[Chain]:
    """The chains in an order in which they can run: of those that wait for none, the one that begins first."""
    home = {position: index for index, (positions, _) in enumerate(chains) for position in positions}
    waits = [
        {home[made] for position in positions for made in matcher.flow.producers(matcher.graph.nodes[position])}
        - {index}
        for index, (positions, _) in enumerate(chains)
    ]
    readers: list[list[int]] = [[] for _ in chains]
    for index, makers in enumerate(waits):
        for maker in makers:
            readers[maker].append(index)
    ready = [(positions[0], index) for index, (positions, _) in enumerate(chains) if not waits[index]]
    heapq.heapify(ready)
    done = 0
    while ready:
        _, index = heapq.heappop(ready)
        yield chains[index]
        done += 1
        for reader in readers[index]:
            waits[reader].discard(index)
            if not waits[reader]:
                heapq.heappush(ready, (chains[reader][0][0], reader))
    assert done == len(chains), "groups wait for each other: legality let a cycle through"


def _inputs(nodes: Sequence[Node]) -> tuple[str, ...]:
    made = {node.outputs[0] for node in nodes}
    return tuple(dict.fromkeys(name for node in nodes for name in node.inputs if name not in made))


def _refusals(matcher: Matcher, groups: Sequence[Group]) -> Iterator[Refusal]:
    """A reason for each element-wise node that reads what a group lets out, or might follow it by a rule."""
    home = {node.name: entry for entry in groups for node in entry.nodes}
    for entry in groups:
        for node in matcher.graph.consumers[entry.output]:
            if node.op in EPILOGUE or matcher.objection(entry.nodes[-1], node) is None:
                yield Refusal(entry.name, node.name, _reason(matcher, entry, node, home[node.name]))


def _reason(matcher: Matcher, entry: Group, node: Node, other: Group) -> str:
    pair = matcher.objection(entry.nodes[-1], node)
    if pair is not None:
        return pair
    if other.anchor.name != node.name:
        return f"it joined {other.name}"
    whole = matcher.refusal([*entry.nodes, node])
    return whole if whole is not None else "the groups are larger without it"
