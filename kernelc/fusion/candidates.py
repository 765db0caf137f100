"""Chains of nodes that a rule makes one kernel of, and why others are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelc.fusion import capability, legality
from kernelc.fusion.constraint import Fact
from kernelc.fusion.facts import facts_of, worked_on
from kernelc.fusion.legality import Flow
from kernelc.fusion.rule import MAX_CHAIN, Rule
from kernelc.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal chain by positions of its nodes, and the best rule for it."""

    nodes: tuple[int, ...]
    rule: Rule


class Matcher:
    """Finds the candidates of a graph under rules; answers why two neighbours are not in one."""

    def __init__(self, graph: Graph, rules: Sequence[Rule], on_chip_bytes: int = 0) -> None:
        self.graph, self._on_chip_bytes = graph, on_chip_bytes
        self.flow = Flow(graph)
        order = sorted(enumerate(rules), key=lambda entry: (-entry[1].benefit, entry[0]))
        self._rules = [rule for _, rule in order if not rule.lacks]
        self._by_size = {size: [rule for rule in self._rules if size in rule.sizes] for size in range(2, MAX_CHAIN + 1)}
        self._keepable = {
            op for rule in self._rules for step in rule.steps if step.name in rule.kept for op in step.ops
        }
        self._pairs = {pair for rule in self._rules for pair in rule.neighbours()}
        self._linked = tuple(self._links(node) for node in graph.nodes)

    def candidates(self) -> Iterator[Candidate]:
        """All candidates, in order of their last nodes, shorter ones first."""
        for last in range(len(self.graph.nodes)):
            chains: list[tuple[int, ...]] = [(last,)]
            while chains:
                chain = chains.pop(0)
                rule = self.best_rule([self.graph.nodes[node] for node in chain]) if len(chain) > 1 else None
                if rule is not None:
                    yield Candidate(chain, rule)
                if len(chain) < MAX_CHAIN:
                    chains += [(before, *chain) for before in self._linked[chain[0]]]

    def _links(self, node: Node) -> list[int]:
        """The nodes that this one could follow in a kernel, by position."""
        producers = dict.fromkeys(self.flow.producers(node))
        return [before for before in producers if self.objection(self.graph.nodes[before], node) is None]

    def objection(self, before: Node, node: Node) -> str | None:
        """Why no group can hold these two, one after the other; None where one might."""
        value = before.outputs[0]
        kept = (value,) if before.op in self._keepable and self.flow.first_of_all(node, value) else ()
        legal = legality.objections(self.flow, (before, node), kept=kept)
        reasons = [*legal, *capability.objections(self.graph, before, node)]
        if not reasons and (before.op, node.op) not in self._pairs:
            reasons = [f"no rule joins {node.op} to {before.op}"]
        return reasons[0] if reasons else None

    def refusal(self, nodes: Sequence[Node]) -> str | None:
        """Why this chain of linked nodes is no candidate; None where it is one."""
        if self.best_rule(nodes) is not None:
            return None
        keepable = [index for index, node in enumerate(nodes) if node.op in self._keepable]
        kept = frozenset(self._kept(nodes, keepable))
        legal = next(legality.objections(self.flow, nodes, self._on_chip_bytes, kept), None)
        if legal is not None:
            return legal
        for rule in self._rules:
            reason = next(filter(None, self.broken(rule, nodes)), None)
            if reason is not None:
                return f"rule {rule.name}: {reason}"
        return f"no rule joins it to the {len(nodes) - 1} nodes of the group"

    def best_rule(self, nodes: Sequence[Node]) -> Rule | None:
        """The best rule of which this chain of linked nodes is a match; None where there is none or it is not legal."""
        legal: dict[frozenset[str], bool] = {}  # by what is kept; mostly nothing is
        for rule in self._by_size.get(len(nodes), ()):
            for reason, kept in self._ways(rule, nodes):
                if reason is None and kept not in legal:
                    legal[kept] = not any(legality.objections(self.flow, nodes, self._on_chip_bytes, kept))
                if reason is None and legal[kept]:
                    return rule
        return None

    def broken(self, rule: Rule, nodes: Sequence[Node]) -> Iterator[str | None]:
        """For each way in which a chain fits the rule's pattern what does not hold; None for nothing."""
        return (reason for reason, _ in self._ways(rule, nodes))

    def _ways(self, rule: Rule, nodes: Sequence[Node]) -> Iterator[tuple[str | None, frozenset[str]]]:
        """As `broken`, and the values that the rule's kernel keeps: those that no node outside reads."""
        for ways in rule.fits(tuple(node.op for node in nodes)):
            if not rule.constraints and not rule.kept:
                yield None, frozenset()
                continue
            spans: dict[str, range] = {}
            start = 0
            for step, count in zip(rule.steps, ways, strict=True):
                spans[step.name] = range(start, start + count)
                start += count
            reason = next(self._objections(rule, nodes, spans), None)
            yield reason, frozenset(self._kept(nodes, [spans[name][0] for name in sorted(rule.kept)]))

    def _objections(self, rule: Rule, nodes: Sequence[Node], spans: Mapping[str, range]) -> Iterator[str]:
        for step in rule.steps:
            if step.reads is not None and spans[step.name]:
                reader, kept = spans[step.name][0], spans[step.reads][0]
                if reader - kept < 2 or nodes[kept].outputs[0] not in nodes[reader].operands:
                    yield f"{step.name} does not read {step.reads}"
        bound = {name: [self.facts(nodes, index) for index in span] for name, span in spans.items() if rule.constraints}
        for constraint in rule.constraints:
            reason = constraint.objection(bound)
            if reason is not None:
                yield reason

    def _kept(self, nodes: Sequence[Node], positions: Sequence[int]) -> Iterator[str]:
        inside = {node.name for node in nodes}
        for position in positions:
            value = nodes[position].outputs[0]
            if all(reader.name in inside for reader in self.graph.consumers[value]):
                yield value

    def facts(self, nodes: Sequence[Node], index: int) -> Mapping[str, Fact]:
        """The facts of a node of a chain."""
        value = nodes[index - 1].outputs[0] if index else worked_on(self.graph, nodes[0])
        return facts_of(self.graph, nodes[index], value)
