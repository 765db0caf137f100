"""ONNX Resize and its forerunner Upsample, for images N,C,H,W that keep N and C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from kernelc.frontend.operators.registry import NodeImport, operator
from kernelc.graph import AttrValue
from kernelc.media.ops import COORDINATES, ROUNDINGS
from kernelc.media.rules_resize import MAX_SCALE
from kernelfarm.errors import Code

_PLAIN: dict[str, AttrValue] = {
    "coordinates": "asymmetric",
    "rounding": "floor",
    "sizes": (),
    "antialias": 0,
    "cubic_a": -0.75,
    "exclude_outside": 0,
    "crop_top": 0.0,
    "crop_left": 0.0,
    "crop_bottom": 1.0,
    "crop_right": 1.0,
    "extrapolation": 0.0,
}
_AXES = (2, 3)
_ALL = (0, 1, 2, 3)
MAX_SIZE = 2**24
"""Largest height or width: as a float32 it is exact."""
_Number = TypeVar("_Number", int, float)
_POLICIES = ("stretch", "not_larger", "not_smaller")


@operator("Upsample", 7)
def upsample_7(node: NodeImport) -> str:
    """Scales are an attribute."""
    (value,) = node.required(1)
    return _upsampled(node, value, node.attributes.reals("scales"))


@operator("Upsample", 9)
def upsample_9(node: NodeImport) -> str:
    """Scales are a constant input. Operator set 10 has Resize instead."""
    value, scales = node.required(2)
    return _upsampled(node, value, _reals_of(node, scales, "scales"))


@operator("Resize", 10)
def resize_10(node: NodeImport) -> str:
    """Like Upsample; what it means for a smaller image is not defined."""
    value, scales = node.required(2)
    return _upsampled(node, value, _reals_of(node, scales, "scales"))


def _upsampled(node: NodeImport, value: str, scales: Sequence[float]) -> str:
    """Places are index / scale; "nearest" rounds down."""
    mode = node.attributes.text("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    if mode not in ("nearest", "linear"):
        raise node.site.unsupported("mode is neither nearest nor linear")
    down, across = _spatial(node, value, scales, _ALL)
    if min(down, across) < 1:
        raise node.site.unsupported("a scale is below 1, whose meaning this operator set leaves open")
    return node.emit("resize", [value], _PLAIN | {"mode": mode, "scale_h": down, "scale_w": across})


@operator("Resize", 11)
def resize_11(node: NodeImport) -> str:
    """roi, scales and sizes are inputs; an empty one counts as absent."""
    value, roi, scales, sizes = node.operands(1 if node.site.opset >= 13 else 3, 4)
    assert value is not None
    attributes, opset = node.attributes, node.site.opset
    rank = len(node.tensor(value).shape)
    axes = attributes.optional_integers("axes") if opset >= 18 else None
    axes = tuple(range(rank)) if axes is None else tuple(node.axis(axis, rank) for axis in axes)
    attrs = dict(_PLAIN)
    attrs["mode"] = _choice(node, "mode", "nearest", ("nearest", "linear", "cubic"))
    attrs["coordinates"] = _choice(node, "coordinate_transformation_mode", "half_pixel", _coordinates(opset))
    attrs["rounding"] = _choice(node, "nearest_mode", "round_prefer_floor", ROUNDINGS)
    attrs["cubic_a"] = attributes.real("cubic_coeff_a", -0.75)
    attrs["exclude_outside"] = attributes.integer("exclude_outside", 0)
    attrs["extrapolation"] = attributes.real("extrapolation_value", 0.0)
    attrs["antialias"] = attributes.integer("antialias", 0) if opset >= 18 else 0
    policy = _choice(node, "keep_aspect_ratio_policy", "stretch", _POLICIES) if opset >= 18 else "stretch"
    if attrs["mode"] == "nearest":
        attrs |= {"antialias": 0, "exclude_outside": 0}
    if attrs["coordinates"] == "tf_crop_and_resize":
        attrs |= _crop(node, roi, axes)
    return node.emit("resize", [value], attrs | _target(node, value, (scales, sizes), axes, policy))


def _coordinates(opset: int) -> tuple[str, ...]:
    gone = {"tf_half_pixel_for_nn"} if opset >= 13 else set()
    to_come = {"half_pixel_symmetric"} if opset < 19 else set()
    return tuple(name for name in COORDINATES if name not in gone | to_come)


def _choice(node: NodeImport, name: str, default: str, choices: tuple[str, ...]) -> str:
    value = node.attributes.text(name, default)
    if value not in choices:
        raise node.site.invalid(f"{name} is not one of {', '.join(choices)}")
    return value


def _target(
    node: NodeImport, value: str, given: tuple[str | None, str | None], axes: tuple[int, ...], policy: str
) -> dict[str, AttrValue]:
    """Sizes or scales of the result, one of which is given."""
    scales, sizes = (None if name is None or node.tensor(name).shape == (0,) else name for name in given)
    if (scales is None) == (sizes is None):
        raise node.site.invalid("exactly one of scales and sizes must be given")
    if scales is not None:
        down, across = _spatial(node, value, _reals_of(node, scales, "scales"), axes)
        return {"sizes": (), "scale_h": down, "scale_w": across}
    assert sizes is not None
    wanted = node.integers_of(sizes, "sizes")
    if policy == "stretch":
        height, width = _sizes(node, value, wanted, axes)
        return {"sizes": (height, width), "scale_h": 0.0, "scale_w": 0.0}
    return _keeping_aspect(node, value, wanted, axes, policy)


def _keeping_aspect(
    node: NodeImport, value: str, wanted: tuple[int, ...], axes: tuple[int, ...], policy: str
) -> dict[str, AttrValue]:
    """One scale for all axes that are given, so that no size is over (or under) the wanted one; halves round up."""
    shape = node.tensor(value).shape
    if len(wanted) != len(axes):
        raise node.site.invalid(f"sizes has {len(wanted)} numbers for {len(axes)} axes")
    present = [(size, shape[axis]) for size, axis in zip(wanted, axes, strict=True)]
    known = [(size, before) for size, before in present if isinstance(before, int)]
    if len(known) != len(present) or min(size for pair in known for size in pair) < 1:
        why = "an aspect ratio is kept of sizes that are symbolic or not positive"
        raise node.site.error(Code.SHAPE_NOT_INFERRED, why, "Give the shapes of all inputs with --shape NAME=...")
    scale = (min if policy == "not_larger" else max)(size / before for size, before in known)
    fitted = [int(np.floor(scale * before + 0.5)) for _, before in known]
    height, width = _sizes(node, value, fitted, axes)
    factors = {axis: scale if axis in axes else 1.0 for axis in _AXES}
    return {"sizes": (height, width), "scale_h": factors[2], "scale_w": factors[3]}


def _crop(node: NodeImport, roi: str | None, axes: tuple[int, ...]) -> dict[str, AttrValue]:
    """The part of the image to take: starts of all axes, then ends, in shares of the size."""
    if roi is None:
        raise node.site.invalid("tf_crop_and_resize needs roi")
    sides = _reals_of(node, roi, "roi")
    if len(sides) != 2 * len(axes):
        raise node.site.invalid(f"roi has {len(sides)} numbers for {len(axes)} axes")
    starts, ends = dict(zip(axes, sides, strict=False)), dict(zip(axes, sides[len(axes) :], strict=True))
    for axis in axes:
        if axis not in _AXES and (starts[axis], ends[axis]) != (0.0, 1.0):
            raise node.site.unsupported("roi crops another dimension than height or width")
    names = {"crop_top": (starts, 2, 0.0), "crop_left": (starts, 3, 0.0)}
    names |= {"crop_bottom": (ends, 2, 1.0), "crop_right": (ends, 3, 1.0)}
    return {name: numbers.get(axis, default) for name, (numbers, axis, default) in names.items()}


def _reals_of(node: NodeImport, name: str, what: str) -> tuple[float, ...]:
    array = node.value_of(name)
    if array is None or array.dtype.kind != "f" or array.ndim != 1:
        raise node.site.unsupported(f"{what} must be a constant list of floats")
    return tuple(float(item) for item in array)


def _spatial(node: NodeImport, value: str, scales: Sequence[float], axes: tuple[int, ...]) -> tuple[float, float]:
    """The scales of height and width, 1 where an axis is not listed; those of batch and channels must be 1."""
    by_axis = _by_axis(node, value, scales, axes)
    for axis, scale in sorted(by_axis.items()):
        if axis not in _AXES and scale != 1:
            raise node.site.unsupported(f"scale {axis} changes the batch or the channels")
        if not 0 < scale <= MAX_SCALE:
            raise node.site.invalid(f"scale {axis} is {scale}")
    return by_axis.get(2, 1.0), by_axis.get(3, 1.0)


def _sizes(node: NodeImport, value: str, sizes: Sequence[int], axes: tuple[int, ...]) -> tuple[int, int]:
    """Height and width, that of the input where an axis is not listed; batch and channels must stay."""
    shape = node.tensor(value).shape
    by_axis = _by_axis(node, value, sizes, axes)
    if any(by_axis.get(axis, shape[axis]) != shape[axis] for axis in (0, 1)):
        raise node.site.unsupported("sizes changes the batch or the channels")
    height, width = (by_axis.get(axis, shape[axis]) for axis in _AXES)
    if not isinstance(height, int) or not isinstance(width, int):
        why = "sizes leaves out a dimension whose size is symbolic"
        raise node.site.error(Code.SHAPE_NOT_INFERRED, why, "Give the shapes of all inputs with --shape NAME=...")
    if not (0 < height <= MAX_SIZE and 0 < width <= MAX_SIZE):
        raise node.site.invalid(f"the result would be {height} x {width} large")
    return height, width


def _by_axis(node: NodeImport, value: str, numbers: Sequence[_Number], axes: tuple[int, ...]) -> dict[int, _Number]:
    if len(node.tensor(value).shape) != len(_AXES) + 2:
        raise node.site.unsupported("the input is no image; only N,C,H,W is supported")
    if len(numbers) != len(axes) or len(set(axes)) != len(axes):
        raise node.site.invalid(f"there are {len(numbers)} scales or sizes for the axes {list(axes)}")
    return dict(zip(axes, numbers, strict=True))
