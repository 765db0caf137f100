"""ONNX operators that make or move data."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from kernelc.frontend.operators.registry import NodeImport, operator
from kernelfarm.errors import Code


@operator("Constant", 1)
def constant(node: NodeImport) -> str:
    """A tensor, or from operator set 12 on a number or list of numbers in an attribute."""
    attributes = node.attributes
    node.operands(0)
    if node.site.opset >= 12:
        if attributes.has("value_int"):
            return node.constant(np.array(attributes.integer("value_int")), "i64")
        if attributes.has("value_ints"):
            return node.list_constant(attributes.integers("value_ints"))
        if attributes.has("value_float"):
            return node.constant(np.array(attributes.real("value_float")), "f32")
        if attributes.has("value_floats"):
            return node.constant(np.array(attributes.reals("value_floats")), "f32")
    for name in ("sparse_value", "value_string", "value_strings"):
        if attributes.has(name):
            raise node.site.unsupported(f"the constant is a {name}")
    return node.builder.weight(node.reader.read(attributes.tensor("value"), f"the constant of {node.site}"))


@operator("Reshape", 5)
def reshape(node: NodeImport) -> str:
    """`allowzero` came with operator set 14."""
    allow_zero = node.attributes.integer("allowzero", 0) if node.site.opset >= 14 else 0
    return node.emit("dynamic_reshape", node.required(2), {"allow_zero": allow_zero})


@operator("Flatten", 1)
def flatten(node: NodeImport) -> str:
    """The axis may be the rank itself; negative ones came with operator set 11."""
    (value,) = node.required(1)
    rank, axis = len(node.tensor(value).shape), node.attributes.integer("axis", 1)
    if not (-rank if node.site.opset >= 11 else 0) <= axis <= rank:
        raise node.site.invalid(f"axis {axis} is outside rank {rank}")
    return node.emit("flatten", [value], {"axis": axis + rank if axis < 0 else axis})


def _axes(node: NodeImport, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    negative = node.site.opset >= 11
    return tuple(sorted(node.axis(axis, rank, negative=negative) for axis in axes))


@operator("Squeeze", 1)
def squeeze_1(node: NodeImport) -> str:
    """Axes are an attribute."""
    (value,) = node.required(1)
    return _squeeze(node, value, node.attributes.optional_integers("axes"))


@operator("Squeeze", 13)
def squeeze_13(node: NodeImport) -> str:
    """Axes are an optional constant input."""
    value, axes = node.operands(1, 2)
    assert value is not None
    return _squeeze(node, value, None if axes is None else node.integers_of(axes, "axes"))


def _squeeze(node: NodeImport, value: str, axes: tuple[int, ...] | None) -> str:
    tensor = node.tensor(value)
    if axes is None:
        if not tensor.is_static:
            why = "which dimensions are 1 depends on a symbolic size"
            raise node.site.error(Code.SHAPE_NOT_INFERRED, why, "Give the shapes of all inputs with --shape NAME=...")
        axes = tuple(index for index, size in enumerate(tensor.shape) if size == 1)
    return node.emit("squeeze", [value], {"axes": _axes(node, axes, len(tensor.shape))})


@operator("Unsqueeze", 1)
def unsqueeze_1(node: NodeImport) -> str:
    """Axes are an attribute."""
    (value,) = node.required(1)
    return _unsqueeze(node, value, node.attributes.integers("axes"))


@operator("Unsqueeze", 13)
def unsqueeze_13(node: NodeImport) -> str:
    """Axes are a constant input."""
    value, axes = node.required(2)
    return _unsqueeze(node, value, node.integers_of(axes, "axes"))


def _unsqueeze(node: NodeImport, value: str, axes: tuple[int, ...]) -> str:
    rank = len(node.tensor(value).shape) + len(axes)
    return node.emit("unsqueeze", [value], {"axes": _axes(node, axes, rank)})


@operator("Transpose", 1)
def transpose(node: NodeImport) -> str:
    """By default the dimensions are reversed."""
    (value,) = node.required(1)
    rank = len(node.tensor(value).shape)
    order = node.attributes.integers("perm", tuple(range(rank))[::-1])
    return node.emit("transpose", [value], {"permutation": order})


@operator("Shape", 1)
def shape(node: NodeImport) -> str:
    """`start` and `end` (15) are clamped to the rank."""
    (value,) = node.required(1)
    rank = len(node.tensor(value).shape)
    start, end = 0, rank
    if node.site.opset >= 15:
        start, end = node.attributes.integer("start", 0), node.attributes.integer("end", rank)
    start, end = (min(max(place + rank if place < 0 else place, 0), rank) for place in (start, end))
    return node.emit("shape", [value], {"start": start, "end": max(start, end)})


@operator("Slice", 1)
def slice_1(node: NodeImport) -> str:
    """Bounds are attributes; steps are 1."""
    (value,) = node.required(1)
    starts, ends = node.attributes.integers("starts"), node.attributes.integers("ends")
    axes = node.attributes.integers("axes", tuple(range(len(starts))))
    lists = (starts, ends, axes, (1,) * len(starts))
    return node.emit("slice", [value, *(node.list_constant(items) for items in lists)])


@operator("Slice", 10)
def slice_10(node: NodeImport) -> str:
    """Bounds are inputs; axes default to the first ones, steps to 1."""
    value, starts, ends, axes, steps = node.operands(3, 5)
    assert value is not None and starts is not None and ends is not None
    sizes = node.tensor(starts).shape
    if len(sizes) != 1 or not isinstance(sizes[0], int):
        raise node.site.invalid("starts must be a list of known length")
    axes = node.list_constant(range(sizes[0])) if axes is None else axes
    steps = node.list_constant((1,) * sizes[0]) if steps is None else steps
    return node.emit("slice", [value, starts, ends, axes, steps])


@operator("Concat", 4)
def concat(node: NodeImport) -> str:
    """Negative axes came with operator set 11."""
    values = node.variadic()
    rank = len(node.tensor(values[0]).shape)
    axis = node.axis(node.attributes.integer("axis"), rank, negative=node.site.opset >= 11)
    return node.emit("concat", values, {"axis": axis})


@operator("Split", 2)
def split_2(node: NodeImport) -> tuple[str, ...]:
    """Lengths are an attribute; without it all parts are equal. Negative axes came with operator set 11."""
    (value,) = node.required(1)
    axis, size = _split_axis(node, value)
    lengths = node.attributes.optional_integers("split")
    return _split(node, value, axis, _equal(node, size) if lengths is None else lengths)


@operator("Split", 13)
def split_13(node: NodeImport) -> tuple[str, ...]:
    """Lengths are an optional constant input."""
    value, lengths = node.operands(1, 2)
    assert value is not None
    axis, size = _split_axis(node, value)
    return _split(node, value, axis, _equal(node, size) if lengths is None else node.integers_of(lengths, "split"))


@operator("Split", 18)
def split_18(node: NodeImport) -> tuple[str, ...]:
    """Either lengths, or `num_outputs`: then the last part is smaller where the others do not fill the dimension."""
    value, lengths = node.operands(1, 2)
    assert value is not None
    axis, size = _split_axis(node, value)
    if (lengths is None) != node.attributes.has("num_outputs"):
        raise node.site.invalid("it takes either the input split or the attribute num_outputs")
    if lengths is not None:
        return _split(node, value, axis, node.integers_of(lengths, "split"))
    count = node.attributes.integer("num_outputs")
    if count != node.outputs:
        raise node.site.invalid(f"num_outputs is {count}; it has {node.outputs} outputs")
    length = -(-size // count)
    return _split(node, value, axis, (*(length,) * (count - 1), size - length * (count - 1)))


def _split_axis(node: NodeImport, value: str) -> tuple[int, int]:
    """The axis and its size."""
    shape = node.tensor(value).shape
    axis = node.axis(node.attributes.integer("axis", 0), len(shape), negative=node.site.opset >= 11)
    size = shape[axis]
    if not isinstance(size, int):
        why = f"the size {size} of the axis that is split is symbolic"
        raise node.site.error(Code.SHAPE_NOT_INFERRED, why, "Give the shapes of all inputs with --shape NAME=...")
    return axis, size


def _equal(node: NodeImport, size: int) -> tuple[int, ...]:
    if node.outputs == 0 or size % node.outputs:
        raise node.site.invalid(f"a dimension of {size} does not split into {node.outputs} equal parts")
    return (size // node.outputs,) * node.outputs


def _split(node: NodeImport, value: str, axis: int, lengths: tuple[int, ...]) -> tuple[str, ...]:
    """One slice for each output."""
    size = node.tensor(value).shape[axis]
    if len(lengths) != node.outputs:
        raise node.site.invalid(f"it has {len(lengths)} lengths and {node.outputs} outputs")
    if min(lengths, default=0) < 0 or sum(lengths) != size:
        raise node.site.invalid(f"lengths {list(lengths)} do not make up a dimension of {size}")
    ends = list(accumulate(lengths))
    axes, steps = node.list_constant((axis,)), node.list_constant((1,))
    bounds = [
        (node.list_constant((end - length,)), node.list_constant((end,)))
        for end, length in zip(ends, lengths, strict=True)
    ]
    return tuple(node.emit("slice", [value, start, end, axes, steps]) for start, end in bounds)


@operator("DepthToSpace", 1)
def depth_to_space_1(node: NodeImport) -> str:
    """Channels count rows, columns, depth."""
    return node.emit("depth_to_space", node.required(1), {"block": node.attributes.integer("blocksize"), "mode": "DCR"})


@operator("DepthToSpace", 11)
def depth_to_space_11(node: NodeImport) -> str:
    """The order of the channels is an attribute."""
    block, mode = node.attributes.integer("blocksize"), node.attributes.text("mode", "DCR")
    return node.emit("depth_to_space", node.required(1), {"block": block, "mode": mode})


@operator("Gather", 1)
def gather(node: NodeImport) -> str:
    """Slices of the first input at the indices of the second."""
    value, indices = node.required(2)
    axis = node.axis(node.attributes.integer("axis", 0), len(node.tensor(value).shape))
    return node.emit("gather", [value, indices], {"axis": axis})
