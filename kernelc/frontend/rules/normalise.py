"""BatchNormalization and additions of constants, folded into the convolution or product before them.

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


def batch_norm(build: Rebuild, node: Node, old: Node) -> str | None:
    """conv then batch_norm is a conv, where nothing else reads the first; else x * factor + offset per channel."""
    if node.op != "batch_norm":
        return None
    affine = _affine(build, node)
    if affine is None:
        return None
    factor, offset = affine
    dtype = build.tensor(node.inputs[0]).dtype
    conv = build.producer(node.inputs[0], "conv")
    if conv is not None and build.feeds_only(old, 0):
        weight = build.weight(conv.inputs[1])
        bias = _bias(build, conv, len(factor))
        if weight is not None and bias is not None:
            scaled = weight.array.astype(np.float64) * factor.reshape(-1, 1, 1, 1)
            shifted = bias * factor + offset
            operands = [conv.inputs[0], _rounded(build, scaled, dtype), _rounded(build, shifted, dtype)]
            return build.emit("conv", operands, dict(conv.attrs))
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


def _bias(build: Rebuild, node: Node, channels: int) -> Floats | None:
    """The bias of a conv or matmul in float64, zeros where it has none; None where it is computed."""
    if len(node.inputs) == 2:
        return np.zeros(channels)
    weight = build.weight(node.inputs[2])
    return None if weight is None else weight.array.astype(np.float64)


def _rounded(build: Rebuild, array: Array, dtype: str) -> str:
    with np.errstate(all="ignore"):
        return build.constant(canonical(array.astype(NUMPY_TYPES[dtype])), dtype)


def bias(build: Rebuild, node: Node, old: Node) -> str | None:
    """conv or matmul, then add of a constant per channel, is the first with a bias, where nothing else reads it."""
    if node.op != "add" or build.weight(node.inputs[1]) is None or not build.feeds_only(old, 0):
        return None
    before = build.producer(node.inputs[0], "conv") or build.producer(node.inputs[0], "matmul")
    result = build.tensor(node.inputs[0])
    if before is None or not result.dtype.startswith("f"):
        return None
    channels = result.shape[1 if before.op == "conv" else -1] if result.shape else None
    if not isinstance(channels, int):
        return None
    added = _per_channel(build, node.inputs[1], len(result.shape), 1 if before.op == "conv" else -1, channels)
    present = _bias(build, before, channels)
    if added is None or present is None:
        return None
    total = _rounded(build, present + added, result.dtype)
    return build.emit(before.op, [*before.inputs[:2], total], dict(before.attrs))


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
