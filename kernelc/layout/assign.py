"""Which buffer every value of a grouped graph gets: blocked channels, halos for padded readers, aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelc.graph import Graph, Group, Node, Tensor
from kernelc.layout.buffer import Buffer
from kernelc.layout.movement import AXES, CHANNEL, COLUMN, ROW, Movement, movement
from kernelc.layout.refuse import refused, where
from kernelc.layout.window import Phase, Taps, phases
from kernelc.media.builder import MAX_TENSOR_BYTES
from kernelfarm.errors import Code, FarmError

MAX_REACH = 2**16
"""Rows or columns of the widest window, dilation included."""
MAX_PHASES = 8
"""Largest stride of a transposed convolution: each phase has code of its own."""
MOVES = frozenset({"reshape", "rearrange"})
"""Anchors whose result is their operand's elements, in order or not."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`buffers` by value name; `roots` maps each value to the one whose memory it is: itself or an alias's operand."""

    buffers: Mapping[str, Buffer]
    roots: Mapping[str, str]

    @property
    def wide(self) -> bool:
        """Whether some value fills more than half of a block of channels."""
        return any(2 * buffer.channels > buffer.lanes > 1 for buffer in self.buffers.values())


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


def _maker(graph: Graph, name: str) -> tuple[str, dict[str, str]]:
    """Where a value comes from, for the text and the detail of an error."""
    node = graph.producers.get(name)
    if node is not None:
        return f"the result of the node {node.name} (media.{node.op})", where(node)
    for port in graph.inputs:
        if port.tensor == name:
            return f"the graph input {port.name!r}", {"input": port.name}
    return f"the constant {name}", {}


def _check_values(graph: Graph, groups: Sequence[Group]) -> None:
    """Refuse values without a layout by their input or node, before anything is said of their readers."""
    for name in [*(port.tensor for port in graph.inputs), *(group.output for group in groups)]:
        image(graph.tensors[name], *_maker(graph, name))


def _check_size(graph: Graph, name: str, buffer: Buffer) -> None:
    """Refuse what passes the limit of a value only through the zero columns and lanes of its layout."""
    if buffer.bytes > MAX_TENSOR_BYTES:
        maker, detail = _maker(graph, name)
        why = f"with {buffer.left} + {buffer.right} columns of padding, in blocks of {buffer.lanes} channels"
        raise FarmError(
            Code.MODEL_TOO_LARGE,
            f"{maker} takes more than {MAX_TENSOR_BYTES} bytes",
            f"it takes {buffer.bytes}, {why}",
            detail=detail,
        )


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


def assign(graph: Graph, groups: Sequence[Group], lanes: int) -> Layout:
    """The layout of all values that groups read or write.

    A graph input of few channels that only dense convolutions or rearrangements read stays plain (lanes = 1) but gets
    their halo.
    """
    _check_values(graph, groups)
    roots = _roots(graph, groups)
    halos: dict[str, tuple[int, int]] = {}
    for group in groups:
        if group.anchor.op in ("conv", "conv_transpose"):
            name = roots[group.anchor.inputs[0]]
            before, needed = halos.get(name, (0, 0)), _halo(group.anchor, graph, image(graph.tensors[name])[2])
            halos[name] = max(before[0], needed[0]), max(before[1], needed[1])
    buffers = {}
    for name, root in roots.items():
        used = 1 if _stays_plain(graph, groups, roots, root, lanes) else lanes
        buffers[name] = Buffer(*image(graph.tensors[root]), used, *halos.get(root, (0, 0)))
        _check_size(graph, root, buffers[name])
    return Layout(buffers, roots)


def _halo(node: Node, graph: Graph, width: int) -> tuple[int, int]:
    """Zero columns that a convolution reads before and after rows of `width`."""
    if node.op == "conv":
        taps = conv_taps(node, graph)
        return taps.left, taps.right(width, graph.result(node).static_shape[3])
    reaches = [phase.reach(width) for phase in transposed_phases(node, graph)[1]]
    return max(left for left, _ in reaches), max(right for _, right in reaches)


def _roots(graph: Graph, groups: Sequence[Group]) -> dict[str, str]:
    roots = {port.tensor: port.tensor for port in graph.inputs}
    for group in groups:
        alias = is_alias(graph, group.anchor)
        roots[group.output] = roots[group.anchor.inputs[0]] if alias else group.output
    return roots


def is_alias(graph: Graph, node: Node) -> bool:
    """Whether a node's result is its operand's memory.

    Raises `FarmError` OPERATOR_NOT_LOWERED for a move that rows, columns and channels do not say, and as `image`.
    """
    if node.op == "identity":
        return True
    if node.op not in MOVES:
        return False
    before, after = (image(graph.tensors[name], *_maker(graph, name)) for name in (node.inputs[0], *node.outputs))
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


def _stays_plain(graph: Graph, groups: Sequence[Group], roots: Mapping[str, str], root: str, lanes: int) -> bool:
    """Whether the memory of a graph input, whatever names it has, may have its channels apart."""
    if root not in graph.input_tensors or image(graph.tensors[root])[0] >= lanes:
        return False
    names = {name for name, memory in roots.items() if memory == root}
    if names & graph.output_tensors:
        return False
    readers = [group for group in groups if names & set(group.inputs)]
    return bool(readers) and all(
        (group.anchor.op == "rearrange" or (group.anchor.op == "conv" and group.anchor.integer("group") == 1))
        and group.anchor.inputs[0] in names
        and not any(names & set(node.inputs) for node in group.epilogue)
        for group in readers
    )
