"""Groups of any graph hold every node once, can run in their order, and let one value out."""

from __future__ import annotations

from hypothesis import given, settings

from kernelc import fusion
from kernelc.fusion import grouping
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
            assert node.op in grouping.EPILOGUE
            assert node.inputs.count(before.outputs[0]) == 1
            assert graph.consumers[before.outputs[0]] == (node,)
            assert graph.result(node).shape == graph.result(group.anchor).shape


@settings(max_examples=100, deadline=None)
@given(graphs(most=30))
def test_two_element_wise_neighbours_in_two_groups_have_a_reason(graph: Graph) -> None:
    result = fusion.group(graph)
    home = {node.name: group.name for group in result.groups for node in group.nodes}
    refused = {(refusal.group, refusal.node) for refusal in result.refusals}
    for group in result.groups:
        for reader in graph.consumers[group.output]:
            if reader.op in grouping.EPILOGUE and home[reader.name] != group.name:
                assert (group.name, reader.name) in refused
