"""Groups of any graph hold every node once, can run in their order, let one value out, and are the best there are."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelc import fusion
from kernelc.fusion import choice, library
from kernelc.fusion.candidates import Candidate, Matcher
from kernelc.fusion.capability import EPILOGUE
from kernelc.fusion.rule import Rule
from kernelc.graph import Graph
from tests.support.random_graphs import graphs


@settings(max_examples=100, deadline=None)
@given(graphs(most=30))
def test_groups_are_a_legal_schedule_of_the_graph(graph: Graph) -> None:
    groups = fusion.group(graph).groups
    assert sorted(node.name for group in groups for node in group.nodes) == sorted(node.name for node in graph.nodes)
    available = set(graph.input_tensors) | set(graph.weights)
    for group in groups:
        assert set(group.inputs) <= available, "a group reads a value that no earlier group wrote"
        inside = {node.outputs[0] for node in group.nodes}
        assert set(group.inputs).isdisjoint(inside)
        for node in group.nodes:
            assert set(node.inputs) <= set(group.inputs) | inside
        available.add(group.output)
    assert graph.output_tensors <= available, "an output is hidden inside a group"


@settings(max_examples=100, deadline=None)
@given(graphs(most=30))
def test_an_epilogue_is_a_chain_of_element_wise_nodes_of_one_shape(graph: Graph) -> None:
    for group in fusion.group(graph).groups:
        for before, node in zip(group.nodes, group.epilogue, strict=False):
            assert node.op in EPILOGUE
            assert node.inputs.count(before.outputs[0]) == 1
            assert {reader.name for reader in graph.consumers[before.outputs[0]]} <= {
                one.name for one in group.epilogue
            }
            assert graph.result(node).shape == graph.result(group.anchor).shape


@settings(max_examples=100, deadline=None)
@given(graphs(most=30))
def test_two_element_wise_neighbours_in_two_groups_have_a_reason(graph: Graph) -> None:
    result = fusion.group(graph)
    home = {node.name: group.name for group in result.groups for node in group.nodes}
    refused = {(refusal.group, refusal.node) for refusal in result.refusals}
    for group in result.groups:
        for reader in graph.consumers[group.output]:
            if reader.op in EPILOGUE and home[reader.name] != group.name:
                assert (group.name, reader.name) in refused


RULES = library.builtin()


@st.composite
def rules(draw: st.DrawFn) -> tuple[Rule, ...]:
    """Some of the farm's rules and the general ones, with other benefits."""
    chosen = draw(st.lists(st.sampled_from(RULES), min_size=1, unique=True))
    return tuple(
        dataclasses.replace(rule, benefit=draw(st.integers(0, 5))) for rule in dict.fromkeys((*chosen, *RULES[-4:]))
    )


@settings(max_examples=150, deadline=None)
@given(graphs(most=8), rules())
def test_the_choice_is_the_best_of_all_choices(graph: Graph, used: Sequence[Rule]) -> None:
    assume(len(graph.nodes) <= 12)
    matcher = Matcher(graph, used)
    count = range(len(graph.nodes))
    found = choice.choose(len(count), list(matcher.candidates()))

    best = max(choice.score_of(chosen, count) for chosen in _choices(_all_candidates(graph, matcher)))

    assert choice.score_of(found, count) == best


@settings(max_examples=100, deadline=None)
@given(graphs(most=30))
def test_links_of_candidates_form_trees(graph: Graph) -> None:
    following: dict[int, int] = {}
    for candidate in Matcher(graph, RULES).candidates():
        for node, after in itertools.pairwise(candidate.nodes):
            assert following.setdefault(node, after) == after


@settings(max_examples=100, deadline=None)
@given(graphs(most=8), rules())
def test_no_choice_of_legal_groups_waits_for_itself(graph: Graph, used: Sequence[Rule]) -> None:
    assume(len(graph.nodes) <= 12)
    for chosen in _choices(_all_candidates(graph, Matcher(graph, used))):
        home = {node: group.nodes[0] for group in chosen for node in group.nodes}
        position = {node.name: index for index, node in enumerate(graph.nodes)}
        waits: dict[int, set[int]] = {}
        for index, node in enumerate(graph.nodes):
            makers = {position[graph.producers[name].name] for name in node.operands if name in graph.producers}
            own = home.get(index, index)
            waits.setdefault(own, set()).update({home.get(maker, maker) for maker in makers} - {own})
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as cycle:
            raise AssertionError(f"{chosen} wait for each other") from cycle


def _all_candidates(graph: Graph, matcher: Matcher) -> list[Candidate]:
    """Every path in the graph that is a legal group of a rule, found by trying all paths."""
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    paths = [[node] for node in graph.nodes]
    found = []
    while paths:
        path = paths.pop()
        paths += [[*path, reader] for reader in graph.consumers[path[-1].outputs[0]]]
        pairs = itertools.pairwise(path)
        if len(path) < 2 or any(matcher.objection(one, other) for one, other in pairs):
            continue
        rule = matcher.best_rule(path)
        if rule is not None:
            found.append(Candidate(tuple(position[node.name] for node in path), rule))
    return found


def _choices(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """All sets of candidates of which no two share a node."""
    if not candidates:
        yield []
        return
    first, rest = candidates[0], candidates[1:]
    yield from _choices(rest)
    for others in _choices([other for other in rest if set(other.nodes).isdisjoint(first.nodes)]):
        yield [first, *others]
