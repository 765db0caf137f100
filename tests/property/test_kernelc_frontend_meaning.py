"""Simplification keeps what a graph computes and its interface, and leaves nothing for a second run."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from kernelc import frontend
from kernelc.graph import Graph
from kernelc.numerics.reference import evaluate
from tests.support.random_graphs import graphs


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_a_simplified_graph_computes_the_same(graph: Graph) -> None:
    simple = frontend.simplify(graph)
    draw = np.random.Generator(np.random.PCG64(1))
    shapes = {port.name: graph.tensors[port.tensor].static_shape for port in graph.inputs}
    inputs = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    before, after = evaluate(graph, inputs), evaluate(simple, inputs)
    for name, value in before.items():
        scale = float(np.max(np.abs(value), initial=1.0))
        np.testing.assert_allclose(after[name], value, rtol=1e-4, atol=1e-5 * scale)


@settings(max_examples=60, deadline=None)
@given(graphs(symbolic=True))
def test_ports_and_their_types_stay_and_a_second_run_changes_nothing(graph: Graph) -> None:
    simple = frontend.simplify(graph)
    assert [p.name for p in (*simple.inputs, *simple.outputs)] == [p.name for p in (*graph.inputs, *graph.outputs)]
    for before, after in zip(graph.outputs, simple.outputs, strict=True):
        old, new = graph.tensors[before.tensor], simple.tensors[after.tensor]
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
    assert frontend.simplify(simple) == simple
