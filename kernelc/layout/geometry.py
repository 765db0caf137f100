"""How a node's operands lie under its result: images, windows, moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelc.graph import Graph, Node, Tensor
from kernelc.layout.movement import AXES, CHANNEL, COLUMN, ROW, Movement, movement
from kernelc.layout.refuse import refused, where
from kernelc.layout.window import Phase, Taps, phases
from kernelfarm.errors import Code, FarmError

MAX_REACH = 2**16
"""Rows or columns of the widest window, dilation included."""
MAX_PHASES = 8
"""Largest stride of a transposed convolution: each phase has code of its own."""
MOVES = frozenset({"reshape", "rearrange"})
"""Anchors whose result is their operand's elements, in order or not."""


def image(tensor: Tensor, maker: str = "", detail: Mapping[str, str] | None = None) -> tuple[int, int, int]:
    """(channels, height, width) of a value: [1, C, H, W], a sequence [1, L, C] as one row, or [1, C] as one pixel.

    Raises `FarmError` LAYOUT_INFEASIBLE, in which `maker` says where the value comes from, for other ranks, batches
    other than one, empty values and types other than f32.
    """
    shape = tensor.static_shape
    if tensor.dtype == "f32" and len(shape) in AXES and shape[0] == 1 and min(shape) > 0:
        sizes = dict(zip(AXES[len(shape)], shape[1:], strict=True))
        return sizes[CHANNEL], sizes.get(ROW, 1), sizes.get(COLUMN, 1)
    raise FarmError(
        Code.LAYOUT_INFEASIBLE,
        f"{maker or f'the value {tensor.name}'} of type {tensor.dtype} {list(shape)} has no layout",
        "values must be f32 of shape [1, C, H, W], [1, L, C] or [1, C]",
        "Build with --shape so that the batch is 1.",
        {"tensor": tensor.name, "shape": list(shape), "dtype": tensor.dtype, **(detail or {})},
    )


def maker_of(graph: Graph, name: str) -> tuple[str, dict[str, str]]:
    """Where a value comes from, for the text and the detail of an error."""
    node = graph.producers.get(name)
    if node is not None:
        return f"the result of the node {node.name} (media.{node.op})", where(node)
    for port in graph.inputs:
        if port.tensor == name:
            return f"the graph input {port.name!r}", {"input": port.name}
    return f"the constant {name}", {}


def conv_taps(node: Node, graph: Graph) -> Taps:
    """The window of a convolution; raises `FarmError` OPERATOR_NOT_LOWERED where its shapes are not two-dimensional."""
    height, width = graph.tensors[node.inputs[1]].static_shape[2:]
    return _taps(node, graph, height, width)


def transposed_phases(node: Node, graph: Graph) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
    """The phases of a transposed convolution along height and along width."""
    kernel, outputs = graph.tensors[node.inputs[1]].static_shape[2:], graph.result(node).static_shape[2:]
    strides, dilations = node.integers("strides"), node.integers("dilations")
    if max(strides) > MAX_PHASES:
        raise refused(node, f"its stride is {max(strides)}; {MAX_PHASES} is the largest that is lowered")
    _check_reach(node, kernel, dilations)
    before = node.integers("pads")[:2]
    rows, columns = (
        phases(*axis) for axis in zip(outputs, strides, kernel, dilations, before, strict=True)
    )  # fmt: skip
    return rows, columns


def pool_taps(node: Node, graph: Graph) -> Taps:
    """The window of a pooling node."""
    height, width = node.integers("kernel")
    return _taps(node, graph, height, width)


def _taps(node: Node, graph: Graph, height: int, width: int) -> Taps:
    strides, dilations = node.integers("strides"), node.integers("dilations")
    top, left = node.integers("pads")[:2]
    _check_reach(node, (height, width), dilations)
    rows = graph.tensors[node.inputs[0]].static_shape[2]
    outputs = graph.result(node).static_shape[2]
    return Taps(height, width, strides[0], strides[1], dilations[0], dilations[1], top, left, rows, outputs)


def _check_reach(node: Node, kernel: Sequence[int], dilations: Sequence[int]) -> None:
    for size, dilation in zip(kernel, dilations, strict=True):
        if (size - 1) * dilation >= MAX_REACH:
            raise refused(node, f"a window that spans {(size - 1) * dilation + 1} rows or columns; {MAX_REACH} at most")


def is_alias(graph: Graph, node: Node) -> bool:
    """Whether a node's result is its operand's memory.

    Raises `FarmError` OPERATOR_NOT_LOWERED for a move that rows, columns and channels do not say, and as `image`.
    """
    if node.op == "identity":
        return True
    if node.op not in MOVES:
        return False
    before, after = (image(graph.tensors[name], *maker_of(graph, name)) for name in (node.inputs[0], *node.outputs))
    if before != after:
        return False
    return moved(graph, node).is_straight


def moved(graph: Graph, node: Node) -> Movement:
    """What a node of `MOVES` does to images; raises as `is_alias`."""
    found = movement(graph, node)
    if found is None:
        before, after = graph.tensors[node.inputs[0]].static_shape, graph.result(node).static_shape
        raise refused(node, f"from {list(before)} to {list(after)} it goes by no whole rows, columns or channels")
    return found
