"""BatchNormalization, factors and offsets per channel, folded into the convolution or product before them.

Factors are computed in float64, element by element, and each new weight is rounded once. Nothing is moved through a
convolution that comes *after*: where that one pads, the zeros of the padding are not normalised, and it would be wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelc.frontend.rewrite import Array, Rebuild
from kernelc.graph import NUMPY_TYPES, Node
from kernelc.numerics.exact import canonical

Floats = NDArray[np.float64]


LINEAR = ("conv", "conv_transpose", "matmul")
"""Operations with weights and an optional bias, to which a factor and an offset per channel can be moved."""


def batch_norm(build: Rebuild, node: Node, old: Node) -> str | None:
    """conv then batch_norm is a conv, where nothing else reads the first; else x * factor + offset per channel.

    Between the two a constant per channel may be added.
    """
    if node.op != "batch_norm":
        return None
    affine = _affine(build, node)
    if affine is None:
        return None
    factor, offset = affine
    dtype = build.tensor(node.inputs[0]).dtype
    found = _linear_before(build, node, old)
    if found is not None:
        linear, added = found
        folded = _folded(build, linear, factor, added * factor + offset)
        if folded is not None:
            return folded
    shape = (1, len(factor), *(1 for _ in build.tensor(node.inputs[0]).shape[2:]))
    product = build.emit("mul", [node.inputs[0], _rounded(build, factor.reshape(shape), dtype)])
    return build.emit("add", [product, _rounded(build, offset.reshape(shape), dtype)])


def _affine(build: Rebuild, node: Node) -> tuple[Floats, Floats] | None:
    """factor = scale / sqrt(var + epsilon) and offset = bias - mean * factor (ONNX BatchNormalization)."""
    weights = [build.weight(name) for name in node.inputs[1:]]
    arrays = [weight.array.astype(np.float64) for weight in weights if weight is not None]
    if len(arrays) != len(weights):
        return None
    scale, bias, mean, var = arrays
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(var + node.real("epsilon"))
        return factor, bias - mean * factor


def _linear_before(build: Rebuild, node: Node, old: Node) -> tuple[Node, Floats] | None:
    """The conv or conv_transpose whose result only this node reads, and what is added to it before (0 for nothing)."""
    if not build.feeds_only(old, 0):
        return None
    producer = build.builder.producers.get(node.inputs[0])
    channels = build.tensor(node.inputs[0]).shape[1]
    if producer is None or not isinstance(channels, int):
        return None
    added = np.zeros(channels)
    if producer.op == "add" and build.weight(producer.inputs[1]) is not None:
        before = build.old_producer(old, 0)
        found = _per_channel(build, producer.inputs[1], len(build.tensor(producer.inputs[0]).shape), 1, channels)
        if found is None or before is None or before.op != "add" or not build.feeds_only(before, 0):
            return None
        producer, added = build.builder.producers.get(producer.inputs[0]), found
    if producer is None or producer.op not in ("conv", "conv_transpose"):
        return None
    return producer, added


def _folded(build: Rebuild, linear: Node, factor: Floats, offset: Floats) -> str | None:
    """A linear operation with result * factor + offset, per channel, in its weights; None where these are computed."""
    weight, bias = build.weight(linear.inputs[1]), _bias(build, linear, len(factor))
    if weight is None or bias is None:
        return None
    dtype = weight.dtype
    array = weight.array.astype(np.float64)
    total = bias * factor + offset
    operands = [linear.inputs[0], linear.inputs[1]]
    if (factor != 1).any():
        operands[1] = _rounded(build, _scaled(linear, array, factor), dtype)
    if len(linear.inputs) > 2 or (total != 0).any():
        operands.append(_rounded(build, total, dtype))
    return build.emit(linear.op, operands, dict(linear.attrs))


def _scaled(linear: Node, array: Floats, factor: Floats) -> Floats:
    if linear.op == "matmul":
        return array * factor
    if linear.op == "conv":
        return array * factor.reshape(-1, 1, 1, 1)
    group = linear.integer("group")  # [C, O / group, KH, KW]: a row of C belongs to one group of outputs
    channels, depth, *kernel = array.shape
    grouped = array.reshape(group, channels // group, depth, *kernel) * factor.reshape(group, 1, depth, 1, 1)
    return grouped.reshape(array.shape)


def _bias(build: Rebuild, node: Node, channels: int) -> Floats | None:
    """The bias of a linear operation in float64, zeros where it has none; None where it is computed."""
    if len(node.inputs) == 2:
        return np.zeros(channels)
    weight = build.weight(node.inputs[2])
    return None if weight is None else weight.array.astype(np.float64)


def _rounded(build: Rebuild, array: Array, dtype: str) -> str:
    with np.errstate(all="ignore"):
        return build.constant(canonical(array.astype(NUMPY_TYPES[dtype])), dtype)


def scale_and_bias(build: Rebuild, node: Node, old: Node) -> str | None:
    """A linear operation, then a product with or sum of a constant per channel, is the first, where only that reads it.

    A factor that makes a weight infinite or zero stays outside.
    """
    if node.op not in ("add", "mul") or build.weight(node.inputs[1]) is None or not build.feeds_only(old, 0):
        return None
    before = build.builder.producers.get(node.inputs[0])
    result = build.tensor(node.inputs[0])
    if before is None or before.op not in LINEAR or not result.dtype.startswith("f"):
        return None
    axis = -1 if before.op == "matmul" else 1
    channels = result.shape[axis] if result.shape else None
    if not isinstance(channels, int):
        return None
    numbers = _per_channel(build, node.inputs[1], len(result.shape), axis, channels)
    if numbers is None:
        return None
    if node.op == "add":
        return _folded(build, before, np.ones(channels), numbers)
    if before.op == "matmul" and len(build.tensor(before.inputs[1]).shape) != 2:
        return None
    return _folded(build, before, numbers, np.zeros(channels)) if _tame(numbers) else None


def _tame(factor: Floats) -> bool:
    """Whether products with weights of usual size stay normal float32 numbers."""
    size = np.abs(factor)
    return bool(((size > 2.0**-40) & (size < 2.0**40)).all())


def _per_channel(build: Rebuild, name: str, rank: int, axis: int, channels: int) -> Floats | None:
    """A constant that has one value per channel, as a list; None where it varies over other dimensions."""
    weight = build.weight(name)
    assert weight is not None
    array: Floats = weight.array.astype(np.float64)
    if array.ndim > rank:
        return None
    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
    others = [size for index, size in enumerate(array.shape) if index != axis % rank]
    if any(size != 1 for size in others) or array.shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,)).copy()
