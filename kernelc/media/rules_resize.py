"""Type rules of operations that resample an image or reduce over dimensions."""

from __future__ import annotations

from math import isfinite

import numpy as np

from kernelc.media.call import Call, Rule, Shape, Undetermined, require, shape_text
from kernelc.symbols import Dim, floor_divide, multiply

MAX_SCALE = 2.0**16


def scaled(size: Dim, scale: float) -> Dim:
    """floor(size * scale), the product rounded to float32 as ONNX's own shape inference does.

    Raises `Undetermined` for a symbolic size, unless the scale or its inverse is a whole number.
    """
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(scale)))
    if scale == int(scale):
        return multiply(size, int(scale))
    if 1 / scale == int(1 / scale):
        return floor_divide(size, int(1 / scale))
    raise Undetermined(f"a resize of the symbolic size {size} by {scale}")


def _resize(call: Call) -> tuple[str, Shape]:
    value, node = call.tensors[0], call.node
    require(len(value.shape) == 4, f"x must be N,C,H,W, not {shape_text(value.shape)}")
    sizes, scales = node.integers("sizes"), (node.real("scale_h"), node.real("scale_w"))
    require(len(sizes) in (0, 2), f"sizes has {len(sizes)} numbers; it must have 2 or none")
    for scale in scales:
        require(isfinite(scale) and 0 <= scale <= MAX_SCALE, f"a scale is {scale}")
        require(scale > 0 or bool(sizes), "a scale is 0 and sizes is empty")
    for name in ("cubic_a", "crop_top", "crop_left", "crop_bottom", "crop_right", "extrapolation"):
        require(isfinite(node.real(name)), f"{name} is not finite")
    require(node.attr("mode") != "nearest" or not node.integer("antialias"), "antialias needs an interpolation")
    spatial: Shape = sizes or tuple(scaled(size, scale) for size, scale in zip(value.shape[2:], scales, strict=True))
    require(all(size != 0 for size in (*value.shape[2:], *spatial)), "a size is 0")
    return value.dtype, (*value.shape[:2], *spatial)


def _reduce_mean(call: Call) -> tuple[str, Shape]:
    shape, axes = call.shape(), call.node.integers("axes")
    require(len(set(axes)) == len(axes), f"axes {list(axes)} repeat")
    require(all(axis < len(shape) for axis in axes), f"axes {list(axes)} lie outside rank {len(shape)}")
    require(all(shape[axis] != 0 for axis in axes), "a mean of nothing")
    if call.node.integer("keep_dims"):
        return call.tensors[0].dtype, tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return call.tensors[0].dtype, tuple(size for axis, size in enumerate(shape) if axis not in axes)


RULES: dict[str, Rule] = {"reduce_mean": _reduce_mean, "resize": _resize}
