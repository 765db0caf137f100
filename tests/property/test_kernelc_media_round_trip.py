"""Any graph prints to text that is read back as the same graph, and prints again to the same text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelc import media
from kernelc.graph import Graph
from tests.support.random_graphs import graphs


@settings(max_examples=40, deadline=None)
@given(st.one_of(graphs(), graphs(symbolic=True)))
def test_text_and_graph_are_two_forms_of_the_same(graph: Graph) -> None:
    text = media.to_text(graph)
    again = media.parse(text, graph.weight_bytes())
    assert again == graph
    assert media.to_text(again) == text
