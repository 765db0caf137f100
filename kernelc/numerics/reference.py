"""The meaning of the Media dialect: a graph evaluated slowly in float64, in a fixed order, the same bits on every CPU.

Kernels are compared with it, and golden vectors are made from it. Floats are widened to float64 on entry and rounded
once when a graph output leaves; integers stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import NUMPY_TYPES, Graph, Node
from kernelc.media.call import shape_text
from kernelc.numerics import exact, resampling, windows
from kernelc.numerics.software import exp, tanh
from kernelfarm.errors import Code, FarmError

Array = NDArray[Any]


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The graph's outputs by the model's names, in their declared element types, for inputs by the model's names.

    Raises `FarmError` SHAPE_MISMATCH where an input is missing, unknown, or not of the graph's type.
    """
    values = _values(graph, inputs, keep=graph.output_tensors)
    return {
        port.name: exact.canonical(values[port.tensor].astype(NUMPY_TYPES[graph.tensors[port.tensor].dtype]))
        for port in graph.outputs
    }


def evaluate_all(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value of the graph by its name in the graph, floats as float64."""
    return _values(graph, inputs, keep=graph.tensors.keys())


def _values(graph: Graph, inputs: Mapping[str, Array], *, keep: Collection[str]) -> dict[str, Array]:
    """The values named in `keep`, and others; what nothing reads any more is dropped on the way."""
    values = _checked_inputs(graph, inputs)
    values.update({name: widened(weight.array) for name, weight in graph.weights.items()})
    last = {name: number for number, node in enumerate(graph.nodes) for name in node.inputs}
    for number, node in enumerate(graph.nodes):
        values[node.outputs[0]] = apply(node, [values[name] for name in node.inputs])
        for name in {*node.inputs, *node.outputs} - {*keep}:
            if last.get(name, number) == number:
                del values[name]
    return values


def apply(node: Node, operands: Sequence[Array]) -> Array:
    """Result of one node for `widened` operands, itself widened."""
    with np.errstate(all="ignore"):
        return widened(exact.canonical(np.asarray(_KERNELS[node.op](node, operands))))


def widened(array: Array) -> Array:
    """Floats as float64; others as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _checked_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    names = sorted(port.name for port in graph.inputs)
    if sorted(inputs) != names:
        raise FarmError(Code.SHAPE_MISMATCH, "the inputs are not those of the graph", f"it takes {', '.join(names)}")
    values = {}
    for port in graph.inputs:
        tensor, array = graph.tensors[port.tensor], inputs[port.name]
        if array.dtype != NUMPY_TYPES[tensor.dtype] or array.shape != tensor.shape:
            given = f"{array.dtype} {shape_text(array.shape)}"
            wanted = f"{tensor.dtype} {shape_text(tensor.shape)}"
            raise FarmError(Code.SHAPE_MISMATCH, f"input {port.name!r} is {given}", f"the graph takes {wanted}")
        values[port.tensor] = widened(array)
    return values


def _sigmoid(_: Node, operands: Sequence[Array]) -> Array:
    return 1.0 / (1.0 + exp(-operands[0]))


def _silu(_: Node, operands: Sequence[Array]) -> Array:
    return operands[0] / (1.0 + exp(-operands[0]))


def _hard_sigmoid(node: Node, operands: Sequence[Array]) -> Array:
    return _unit(operands[0] * node.real("alpha") + node.real("beta"))


def _hard_swish(_: Node, operands: Sequence[Array]) -> Array:
    return operands[0] * _unit(operands[0] / 6.0 + 0.5)


def _unit(value: Array) -> Array:
    return exact.clamp(value, np.float64(0), np.float64(1))


def _batch_norm(node: Node, operands: Sequence[Array]) -> Array:
    value, *channels = operands
    scale, bias, mean, var = (channel.reshape(-1, *(1,) * (value.ndim - 2)) for channel in channels)
    return (value - mean) / np.sqrt(var + node.real("epsilon")) * scale + bias


def _layer_norm(node: Node, operands: Sequence[Array]) -> Array:
    """ONNX LayerNormalization without its scale and bias: the variance is that of all elements (no n - 1)."""
    (value,) = operands
    size = float(value.shape[-1])
    centred = value - (windows.sum_in_order(iter(np.moveaxis(value, -1, 0))) / size)[..., None]
    variance = windows.sum_in_order(iter(np.moveaxis(centred * centred, -1, 0))) / size
    return np.asarray(centred / np.sqrt(variance + node.real("epsilon"))[..., None])


def _softmax(node: Node, operands: Sequence[Array]) -> Array:
    value = np.moveaxis(operands[0], node.integer("axis"), 0)
    largest = value[0]
    for item in value[1:]:
        largest = np.where(item > largest, item, largest)
    powers = exp(value - largest)
    total = powers[0]
    for item in powers[1:]:
        total = total + item
    return np.moveaxis(powers / total, 0, node.integer("axis"))


def _matmul(_: Node, operands: Sequence[Array]) -> Array:
    left, right, *bias = operands
    rows = left if left.ndim > 1 else left[None, :]
    columns = right if right.ndim > 1 else right[:, None]
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    total = np.zeros((*batch, rows.shape[-2], columns.shape[-1]), left.dtype)
    for index in range(rows.shape[-1]):
        total += rows[..., :, index, None] * columns[..., None, index, :]
    total = total if left.ndim > 1 else total[..., 0, :]
    total = total if right.ndim > 1 else total[..., 0]
    return total + bias[0] if bias else total


_KERNELS: dict[str, Callable[[Node, Sequence[Array]], Array]] = {
    **exact.KERNELS,
    "average_pool": windows.average_pool,
    "batch_norm": _batch_norm,
    "conv": windows.conv,
    "conv_transpose": windows.conv_transpose,
    "global_average_pool": windows.global_average_pool,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "max_pool": windows.max_pool,
    "reduce_mean": windows.reduce_mean,
    "resize": resampling.resize,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softmax": _softmax,
    "tanh": lambda _, operands: tanh(operands[0]),
}
