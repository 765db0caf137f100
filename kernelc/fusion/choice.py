"""The choice of candidates: exact, by trees.

Links from a node to the one after it in a candidate form trees, and a group is a path in one: all readers of a value
inside a group are in the group, and the one that comes next is the one for which all others wait, in every candidate.
The best choice for a tree is the best group to hold its root, with the best choices for the trees that hang off that
group: dynamic programming over all candidates finds it.

The order of choices: fewest kernels; then most benefit in sum; then larger groups (sum of squares of sizes); then, from
the first node on, a node is rather joined than not, and to the operand that is made last, since it waits for that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelc.fusion.candidates import Candidate

Score = tuple[int, int, int, tuple[tuple[int, int], ...]]
"""Links, benefit, sum of squares, (node, 1 + the node before it in its group, or 0) for each node in order."""


@dataclass(frozen=True, slots=True)
class _Best:
    score: Score
    chosen: tuple[Candidate, ...]


def score_of(chosen: Iterable[Candidate], nodes: Iterable[int]) -> Score:
    """How good a choice of disjoint candidates among `nodes` is; the larger, the better."""
    groups = list(chosen)
    before = {node: 1 + prior for group in groups for prior, node in zip(group.nodes, group.nodes[1:], strict=False)}
    return (
        sum(len(group.nodes) - 1 for group in groups),
        sum(group.rule.benefit for group in groups),
        sum(len(group.nodes) ** 2 for group in groups),
        tuple((node, before.get(node, 0)) for node in sorted(nodes)),
    )


def choose(count: int, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The best choice of disjoint candidates for `count` nodes, by last node. Every link is to a later node."""
    linked: dict[int, set[int]] = {node: set() for node in range(count)}
    ending: dict[int, list[Candidate]] = {node: [] for node in range(count)}
    roots = set(range(count))
    for candidate in candidates:
        ending[candidate.nodes[-1]].append(candidate)
        for prior, node in zip(candidate.nodes, candidate.nodes[1:], strict=False):
            linked[node].add(prior)
            roots.discard(prior)
    best: list[_Best] = []
    for node in range(count):
        groups: list[int | Candidate] = [node, *ending[node]]
        best.append(max((_with(group, linked, best) for group in groups), key=lambda one: one.score))
    chosen = [candidate for root in roots for candidate in best[root].chosen]
    return tuple(sorted(chosen, key=lambda candidate: candidate.nodes[-1]))


def _with(group: int | Candidate, linked: dict[int, set[int]], best: Sequence[_Best]) -> _Best:
    """The best choice for the tree below a group's last node that has this group, or this node alone."""
    nodes = (group,) if isinstance(group, int) else group.nodes
    own = () if isinstance(group, int) else (group,)
    links, benefit, squares, vector = score_of(own, nodes)
    parts, chosen = list(vector), list(own)
    for hanging in sorted({prior for node in nodes for prior in linked[node]} - set(nodes)):
        below = best[hanging]
        links, benefit, squares = links + below.score[0], benefit + below.score[1], squares + below.score[2]
        parts += below.score[3]
        chosen += below.chosen
    return _Best((links, benefit, squares, tuple(sorted(parts))), tuple(chosen))
