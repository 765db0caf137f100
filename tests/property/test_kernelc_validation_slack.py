"""A right answer is no false alarm: what float32 arithmetic makes of random graphs lies within the slack."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from kernelc.graph import Graph
from kernelc.numerics import reference, seeded
from kernelc.validation.meaning import meaning
from tests.support.random_graphs import graphs


@settings(max_examples=150, deadline=None)
@given(graphs(most=8))
def test_float32_arithmetic_stays_within_the_slack(graph: Graph) -> None:
    values = {
        port.tensor: 4 * seeded.uniform(index, graph.tensors[port.tensor].elements).reshape(shape)
        for index, port in enumerate(graph.inputs)
        for shape in [graph.tensors[port.tensor].static_shape]
    }
    values |= {name: weight.array for name, weight in graph.weights.items()}
    rounded = dict(values)
    for count, node in enumerate(graph.nodes, 1):
        wide = reference.apply(node, [reference.widened(rounded[name]) for name in node.inputs])
        rounded[node.outputs[0]] = wide.astype(np.float32) if wide.dtype.kind == "f" else wide
        found = meaning(graph.nodes[:count], values)
        off = np.abs(rounded[node.outputs[0]] - found.value)
        assert ((off <= found.slack) | np.isnan(found.value)).all()
