"""Operations on constants whose result is the same, bit for bit, on every CPU.

Only NumPy operations that IEEE 754 defines fully, or that do not compute, are used, each of them element by element:
`add`, `subtract`, `multiply`, `divide`, `sqrt` (correctly rounded, whatever the vector width; one ufunc call is one
rounding, so that no fused multiply-add can form), comparisons, `where`, `rint`, `trunc`, conversions of formats (round
to nearest even), and moves. float16 is computed in float32 and rounded again, which is innocuous for + - * / (Figueroa
1995). Not used, because their results vary with CPU features or library: `exp` and its like, `sum`, `mean`, `dot`,
`matmul`, `power`, `maximum` and `minimum` (sign of zero), conversions from floats out of an integer's range. The bits
of a NaN that an operation makes differ between CPUs: every NaN result becomes the positive quiet one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import NUMPY_TYPES, Node
from kernelc.media.rules_data import depth_in_space, slice_range

Array = NDArray[Any]
Kernel = Callable[[Node, Sequence[Array]], Array]


class NotExact(ValueError):
    """The operation's result on these values is not the same everywhere, or not defined."""


def canonical(array: Array) -> Array:
    """The array with every NaN replaced by the positive quiet one."""
    if array.dtype.kind != "f":
        return array
    missing = np.isnan(array)
    return np.asarray(np.where(missing, array.dtype.type(np.nan), array)) if missing.any() else array


def apply(node: Node, operands: Sequence[Array]) -> Array:
    """Result of a node in `KERNELS` in the element type of its operands.

    Raises `NotExact` for an integer division by zero, a float without an integer of the target type, an index outside.
    """
    with np.errstate(all="ignore"):
        return canonical(np.asarray(KERNELS[node.op](node, operands)))


def _divide(_: Node, operands: Sequence[Array]) -> Array:
    left, right = operands
    if left.dtype.kind == "f":
        return np.asarray(np.divide(left, right))
    if (right == 0).any():
        raise NotExact("an integer is divided by zero")
    if left.dtype.kind == "i" and ((left == np.iinfo(left.dtype).min) & (right == -1)).any():
        raise NotExact("an integer quotient overflows")
    floor = np.floor_divide(left, right)
    inexact = (left - floor * right != 0) & ((left < 0) != (right < 0))
    return np.asarray(floor + inexact.astype(left.dtype))  # ONNX rounds toward zero, NumPy toward minus infinity


def _relu(_: Node, operands: Sequence[Array]) -> Array:
    (value,) = operands
    return np.asarray(np.where(value < 0, np.zeros((), value.dtype), value))  # keeps NaN and -0


def _leaky_relu(node: Node, operands: Sequence[Array]) -> Array:
    (value,) = operands
    return _sloped(value, value.dtype.type(node.real("alpha")))


def _sloped(value: Array, slope: Array | np.generic) -> Array:
    """value, or slope * value where that is below 0; NaN and -0 stay (ONNX LeakyRelu and PRelu)."""
    return np.asarray(np.where(value < 0, np.multiply(slope, value), value))


def clamp(value: Array, low: Array | np.generic, high: Array | np.generic) -> Array:
    """min(max(value, low), high); NaN stays, and `high` wins where low > high, as ONNX says."""
    raised = np.where(value < low, low, value)
    return np.where(raised > high, high, raised)


def _clip(node: Node, operands: Sequence[Array]) -> Array:
    (value,) = operands
    return clamp(value, value.dtype.type(node.real("min")), value.dtype.type(node.real("max")))


def _clamp(_: Node, operands: Sequence[Array]) -> Array:
    value, low, high = operands
    return clamp(value, low.reshape(()), high.reshape(()))


def cast(value: Array, dtype: str) -> Array:
    """The values in another element type: floats round to nearest even, floats to integers toward zero, integers wrap.

    Raises `NotExact` where a float has no integer of the target type.
    """
    target = NUMPY_TYPES[dtype]
    if target.kind == "b":
        return np.not_equal(value, 0)
    if value.dtype.kind == "f" and target.kind in "iu":
        whole, limits = np.trunc(value.astype(np.float64)), np.iinfo(target.str)
        if not ((whole >= float(limits.min)) & (whole < float(limits.max) + 1)).all():
            raise NotExact(f"a float has no {dtype}")
        return whole.astype(target)
    return value.astype(target)


def _slice(_: Node, operands: Sequence[Array]) -> Array:
    value, *bounds = operands
    starts, ends, axes, steps = (bound.tolist() for bound in bounds)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        value = np.take(value, np.array(slice_range(value.shape[axis], start, end, step), np.int64), axis)
    return value


def _gather(node: Node, operands: Sequence[Array]) -> Array:
    value, indices = operands
    size = value.shape[node.integer("axis")]
    if ((indices < -size) | (indices >= size)).any():
        raise NotExact(f"an index is outside a dimension of {size}")
    return np.take(value, np.where(indices < 0, indices + size, indices), node.integer("axis"))


def _flatten(node: Node, operands: Sequence[Array]) -> Array:
    rows = int(np.prod(operands[0].shape[: node.integer("axis")], dtype=np.int64))
    columns = int(np.prod(operands[0].shape[node.integer("axis") :], dtype=np.int64))
    return operands[0].reshape(rows, columns)


def _dynamic_reshape(node: Node, operands: Sequence[Array]) -> Array:
    value, target = operands
    shape = [int(size) for size in target]
    if not node.integer("allow_zero"):
        shape = [value.shape[index] if size == 0 else size for index, size in enumerate(shape)]
    return value.reshape(shape)


def _shape(node: Node, operands: Sequence[Array]) -> Array:
    return np.array(operands[0].shape[node.integer("start") : node.integer("end")], np.int64)


def _depth_to_space(node: Node, operands: Sequence[Array]) -> Array:
    (value,) = operands
    block = node.integer("block")
    sizes, order = depth_in_space(value.shape, block, str(node.attr("mode")))
    batch, channels, height, width = value.shape
    return value.reshape(sizes).transpose(order).reshape(batch, channels // block**2, height * block, width * block)


def _rearrange(node: Node, operands: Sequence[Array]) -> Array:
    places = np.array(node.integer("offset"), np.int64)
    for size, stride in zip(node.integers("sizes"), node.integers("strides"), strict=True):
        places = places[..., None] + stride * np.arange(size, dtype=np.int64)
    return operands[0].reshape(-1)[places].reshape(node.integers("shape"))


KERNELS: dict[str, Kernel] = {
    "add": lambda _, operands: np.add(*operands),
    "cast": lambda node, operands: cast(operands[0], str(node.attr("to"))),
    "clamp": _clamp,
    "clip": _clip,
    "concat": lambda node, operands: np.concatenate(operands, node.integer("axis")),
    "depth_to_space": _depth_to_space,
    "div": _divide,
    "dynamic_reshape": _dynamic_reshape,
    "flatten": _flatten,
    "gather": _gather,
    **dict.fromkeys(("identity", "layout_cast"), lambda _, operands: operands[0]),
    "leaky_relu": _leaky_relu,
    "mul": lambda _, operands: np.multiply(*operands),
    "prelu": lambda _, operands: _sloped(*operands),
    "rearrange": _rearrange,
    "relu": _relu,
    "reshape": lambda node, operands: operands[0].reshape(node.integers("shape")),
    "shape": _shape,
    "slice": _slice,
    "sqrt": lambda _, operands: np.sqrt(operands[0]),
    "squeeze": lambda node, operands: np.squeeze(operands[0], node.integers("axes")),
    "sub": lambda _, operands: np.subtract(*operands),
    "transpose": lambda node, operands: np.transpose(operands[0], node.integers("permutation")),
    "unsqueeze": lambda node, operands: np.expand_dims(operands[0], node.integers("axes")),
}
"""What can be folded, by the name of the operation."""
