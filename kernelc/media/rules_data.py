"""Type rules of operations that move elements without computing, and of those on shapes."""

from __future__ import annotations

from math import prod

from kernelc.media.call import Call, Illegal, Rule, Shape, Undetermined, require, shape_text
from kernelc.media.views import View
from kernelc.symbols import Dim, add, exact_divide, multiply, product

SHAPE_TYPES = ("i64", "i32")
FAR = 2**31 - 1
"""A slice that ends here or later takes the rest."""


def slice_range(size: int, start: int, end: int, step: int) -> range:
    """Indices that ONNX Slice takes from a dimension (opset 10 and later: negative numbers count from the end)."""
    if step == 0:
        raise Illegal("a step is 0")
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    low, high = (0, size) if step > 0 else (-1, size - 1)
    return range(min(max(start, low if step > 0 else 0), high), min(max(end, low), high), step)


def depth_in_space(shape: tuple[int, ...], block: int, mode: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The six sizes that DepthToSpace splits [N,C,H,W] into, and their order in its result (ONNX DepthToSpace)."""
    batch, channels, height, width = shape
    depth = channels // block**2
    if mode == "DCR":
        return (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    return (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)


def _reshape(call: Call) -> tuple[str, Shape]:
    value, shape = call.tensors[0], call.node.integers("shape")
    if product(value.shape) != product(shape):
        raise Illegal(f"{shape_text(value.shape)} and {shape_text(shape)} do not have the same number of elements")
    return value.dtype, shape


def _dynamic_reshape(call: Call) -> tuple[str, Shape]:
    value, target = call.tensors
    require(target.dtype == "i64", f"the shape is {target.dtype}; it must be i64")
    require(len(target.shape) == 1, "the shape must be a list")
    wanted = call.content(1, "the shape to reshape to")
    if not call.node.integer("allow_zero"):
        wanted = tuple(_copied(value.shape, index, size) for index, size in enumerate(wanted))
    require(sum(size == -1 for size in wanted) <= 1, "more than one size is -1")
    require(all(not isinstance(size, int) or size >= -1 for size in wanted), "a size is negative")
    known = product(tuple(size for size in wanted if size != -1))
    if -1 not in wanted:
        return value.dtype, _proved(value.shape, wanted, known)
    rest = exact_divide(product(value.shape), known) if known != 0 else None
    if rest is None:
        return value.dtype, _proved(value.shape, wanted, None)
    return value.dtype, tuple(rest if size == -1 else size for size in wanted)


def _copied(shape: Shape, index: int, size: Dim) -> Dim:
    if size != 0:
        return size
    require(index < len(shape), f"size {index} of the shape is 0, but x has only {len(shape)} dimensions")
    return shape[index]


def _proved(shape: Shape, wanted: Shape, known: Dim | None) -> Shape:
    elements = product(shape)
    if known is not None and known == elements:
        return wanted
    if isinstance(elements, int) and (known is None or isinstance(known, int)):
        raise Illegal(f"{shape_text(shape)} does not reshape to {shape_text(wanted)}")
    raise Undetermined(f"whether {shape_text(shape)} reshapes to {shape_text(wanted)} depends on symbolic sizes")


def _flatten(call: Call) -> tuple[str, Shape]:
    shape, axis = call.shape(), call.node.integer("axis")
    require(axis <= len(shape), f"axis {axis} is outside rank {len(shape)}")
    return call.tensors[0].dtype, (product(shape[:axis]), product(shape[axis:]))


def _checked_axes(call: Call, rank: int) -> tuple[int, ...]:
    axes = call.node.integers("axes")
    require(len(set(axes)) == len(axes), f"axes {list(axes)} repeat")
    require(all(axis < rank for axis in axes), f"axes {list(axes)} lie outside rank {rank}")
    return axes


def _squeeze(call: Call) -> tuple[str, Shape]:
    shape = call.shape()
    axes = _checked_axes(call, len(shape))
    for axis in axes:
        require(not isinstance(shape[axis], int) or shape[axis] == 1, f"dimension {axis} is {shape[axis]}, not 1")
        if not isinstance(shape[axis], int):
            raise Undetermined(f"whether dimension {axis} of size {shape[axis]} is 1 is not known")
    return call.tensors[0].dtype, tuple(size for index, size in enumerate(shape) if index not in axes)


def _unsqueeze(call: Call) -> tuple[str, Shape]:
    rank = len(call.shape()) + len(call.node.integers("axes"))
    axes = _checked_axes(call, rank)
    sizes = iter(call.shape())
    return call.tensors[0].dtype, tuple(1 if index in axes else next(sizes) for index in range(rank))


def _transpose(call: Call) -> tuple[str, Shape]:
    shape, order = call.shape(), call.node.integers("permutation")
    require(sorted(order) == list(range(len(shape))), f"{list(order)} is not a permutation of rank {len(shape)}")
    return call.tensors[0].dtype, tuple(shape[index] for index in order)


def _depth_to_space(call: Call) -> tuple[str, Shape]:
    shape, block = call.shape(), call.node.integer("block")
    require(len(shape) == 4, f"x has rank {len(shape)}; it must have 4 dimensions")
    batch, channels, height, width = shape
    depth = exact_divide(channels, block**2)
    if depth is None and isinstance(channels, int):
        raise Illegal(f"{channels} channels do not fill squares of {block} x {block}")
    if depth is None:
        raise Undetermined(f"whether {channels} channels fill squares of {block} x {block} is not known")
    return call.tensors[0].dtype, (batch, depth, multiply(height, block), multiply(width, block))


def _rearrange(call: Call) -> tuple[str, Shape]:
    value, node = call.tensors[0], call.node
    sizes, strides, shape = node.integers("sizes"), node.integers("strides"), node.integers("shape")
    require(value.is_static, f"{shape_text(value.shape)} has symbolic sizes")
    require(len(sizes) == len(strides), f"there are {len(sizes)} sizes and {len(strides)} strides")
    require(prod(sizes) == prod(shape), f"sizes {list(sizes)} do not fill {shape_text(shape)}")
    low, high = View(sizes, strides, node.integer("offset")).bounds
    require(low >= 0 and high < value.elements, f"elements {low} to {high} are read; x has {value.elements}")
    return value.dtype, shape


def _shape(call: Call) -> tuple[str, Shape]:
    start, end = call.node.integer("start"), call.node.integer("end")
    require(start <= end <= len(call.shape()), f"dimensions {start} to {end} lie outside rank {len(call.shape())}")
    return "i64", (end - start,)


def _slice(call: Call) -> tuple[str, Shape]:
    value = call.tensors[0]
    for name, tensor in zip(("starts", "ends", "axes", "steps"), call.tensors[1:], strict=True):
        require(tensor.dtype in SHAPE_TYPES and len(tensor.shape) == 1, f"{name} must be a list of i64 or i32")
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (call.numbers(index + 1, name) for index, name in enumerate(names))
    require(len(starts) == len(ends) == len(axes) == len(steps), "starts, ends, axes and steps differ in length")
    rank = len(value.shape)
    places = [axis + rank if axis < 0 else axis for axis in axes]
    require(all(0 <= place < rank for place in places), f"axes {list(axes)} lie outside rank {rank}")
    require(len(set(places)) == len(places), f"axes {list(axes)} repeat")
    sizes = list(value.shape)
    for place, start, end, step in zip(places, starts, ends, steps, strict=True):
        sizes[place] = _sliced(sizes[place], start, end, step)
    return value.dtype, tuple(sizes)


def _sliced(size: Dim, start: int, end: int, step: int) -> Dim:
    if isinstance(size, int):
        return len(slice_range(size, start, end, step))
    if (start, step) == (0, 1) and end >= FAR:
        return size
    raise Undetermined(f"a slice of the symbolic size {size}")


def _concat(call: Call) -> tuple[str, Shape]:
    first, axis = call.tensors[0], call.node.integer("axis")
    require(axis < len(first.shape), f"axis {axis} is outside rank {len(first.shape)}")
    total: Dim = 0
    for tensor in call.tensors:
        require(tensor.dtype == first.dtype, "operands must have the same element type")
        require(len(tensor.shape) == len(first.shape), "operands must have the same rank")
        others = [(a, b) for i, (a, b) in enumerate(zip(first.shape, tensor.shape, strict=True)) if i != axis]
        require(all(a == b for a, b in others), f"{shape_text(first.shape)} and {shape_text(tensor.shape)} do not join")
        total = add(total, tensor.shape[axis])
    return first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])


def _gather(call: Call) -> tuple[str, Shape]:
    value, indices = call.tensors
    axis = call.node.integer("axis")
    require(axis < len(value.shape), f"axis {axis} is outside rank {len(value.shape)}")
    require(indices.dtype in SHAPE_TYPES, f"indices are {indices.dtype}; they must be i64 or i32")
    size = value.shape[axis]
    for index in call.contents[1] or ():
        inside = not isinstance(index, int) or not isinstance(size, int) or -size <= index < size
        require(inside, f"index {index} is outside a dimension of {size}")
    return value.dtype, (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])


RULES: dict[str, Rule] = {
    "concat": _concat,
    "depth_to_space": _depth_to_space,
    "dynamic_reshape": _dynamic_reshape,
    "flatten": _flatten,
    "gather": _gather,
    "rearrange": _rearrange,
    "reshape": _reshape,
    "shape": _shape,
    "slice": _slice,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "unsqueeze": _unsqueeze,
}
