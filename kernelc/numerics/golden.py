"""Golden vectors: what the model itself answers, by the reference interpreter in float64, for two seeded inputs.

They are made from the graph as imported, before any simplification, so that a device that agrees with them has every
stage of the compiler right. Nothing of a target is in them: all payloads of a model carry the same ones.
"""

from __future__ import annotations

import numpy as np

from kernelc.graph import NUMPY_TYPES, Graph, Port, Tensor
from kernelc.numerics import reference, seeded
from kernelfarm.errors import Code, FarmError
from kernelfarm.golden import Case, Golden

CASES = 2


def golden_of(graph: Graph) -> Golden:
    """Vectors for a graph with static float32 inputs and outputs; raises `FarmError` DTYPE_UNSUPPORTED for others."""
    inputs = [_tensor(graph, port) for port in graph.inputs]
    outputs = [_tensor(graph, port) for port in graph.outputs]
    cases = tuple(_case(graph, inputs, number) for number in range(CASES))
    return Golden(tuple(t.bytes for t in inputs), tuple(t.bytes for t in outputs), cases)


def seed_of(case: int, index: int) -> int:
    """The seed of a case's `index`-th input."""
    return case << 32 | index


def _case(graph: Graph, inputs: list[Tensor], number: int) -> Case:
    seeds = tuple(seed_of(number, index) for index in range(len(inputs)))
    feeds = {
        port.name: seeded.uniform(seed, tensor.elements).reshape(tensor.static_shape)
        for port, tensor, seed in zip(graph.inputs, inputs, seeds, strict=True)
    }
    answers = reference.evaluate(graph, feeds)
    values = (np.ascontiguousarray(answers[port.name], NUMPY_TYPES["f32"]).tobytes() for port in graph.outputs)
    return Case(seeds, tuple(values))


def _tensor(graph: Graph, port: Port) -> Tensor:
    tensor = graph.tensors[port.tensor]
    if tensor.dtype != "f32":
        raise FarmError(
            Code.DTYPE_UNSUPPORTED, f"{port.name!r} is of type {tensor.dtype}", "a graph's inputs and outputs are f32"
        )
    return tensor
