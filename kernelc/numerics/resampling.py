"""Resampling along one axis as a table: which elements each output reads, and with which weights (ONNX Resize).

The reference applies the tables in float64, the backend puts them into kernels. Interpolating modes compute places in
float64. Nearest modes compute them in float32, operation by operation as ONNX's own reference and onnxruntime do:
there a place that rounding moves over a half changes which element is taken. Places of a crop are those of ONNX's
reference in all modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import Dim, Node
from kernelc.media.rules_resize import scaled

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Table:
    """`indices` and `weights` are [outputs, taps]; where `outside` an output is the extrapolation value instead."""

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]
    outside: NDArray[np.bool_]

    @property
    def taps(self) -> int:
        """Elements that each output reads."""
        return int(self.indices.shape[1])


def tables(node: Node, sizes: Sequence[int], outputs: Sequence[int]) -> tuple[Table, Table]:
    """The tables of a resize for height and width: from `sizes` to `outputs` elements."""
    names = (("scale_h", "crop_top", "crop_bottom"), ("scale_w", "crop_left", "crop_right"))
    rows, columns = (
        _table(node, size, count, node.real(scale), (node.real(start), node.real(end)))
        for size, count, (scale, start, end) in zip(sizes, outputs, names, strict=True)
    )
    return rows, columns


def resize(node: Node, operands: Sequence[Array]) -> Array:
    """x [N,C,H,W] resampled along H, then W."""
    (value,) = operands
    rows, columns = tables(node, value.shape[2:], _outputs(node, value.shape[2:]))
    down = _apply(rows, value.swapaxes(2, 3)).swapaxes(2, 3)
    result = _apply(columns, down)
    outside = rows.outside[:, None] | columns.outside[None, :]
    return np.where(outside, node.real("extrapolation"), result)


def _outputs(node: Node, sizes: Sequence[int]) -> tuple[int, ...]:
    given, scales = node.integers("sizes"), (node.real("scale_h"), node.real("scale_w"))
    found: Sequence[Dim] = given or [scaled(size, scale) for size, scale in zip(sizes, scales, strict=True)]
    return tuple(size for size in found if isinstance(size, int))


def _apply(table: Table, value: Array) -> Array:
    total = np.zeros((*value.shape[:-1], len(table.indices)), value.dtype)
    for tap in range(table.taps):
        total = total + value[..., table.indices[:, tap]] * table.weights[:, tap]
    return total


def _table(node: Node, size: int, outputs: int, scale: float, crop: tuple[float, float]) -> Table:
    nearest = node.attr("mode") == "nearest"
    real = np.float32 if nearest and node.attr("coordinates") != "tf_crop_and_resize" else np.float64
    factor = real(scale) if scale else real(outputs) / real(size)
    places = _places(str(node.attr("coordinates")), size, outputs, factor, crop)
    outside = np.zeros(outputs, np.bool_)
    if node.attr("coordinates") == "tf_crop_and_resize":
        outside = (places < 0) | (places > size - 1)
    if nearest:
        indices, weights = _rounded(str(node.attr("rounding")), places)[:, None], np.ones((outputs, 1))
    else:
        indices, weights = _interpolated(node, places, float(factor))
    if node.integer("exclude_outside"):
        weights = np.where((indices < 0) | (indices >= size), 0.0, weights)
        weights = weights / _sum(weights)
    return Table(np.minimum(np.maximum(indices, 0), size - 1), weights, outside)


def _places(coordinates: str, size: int, outputs: int, scale: Any, crop: tuple[float, float]) -> Array:
    """Where each output lies in the input, in elements (ONNX Resize, coordinate_transformation_mode).

    The length of the result is size * scale there, before it is rounded down to a number of elements.
    """
    real = type(scale)
    half, last, length = real(0.5), real(size - 1), scale * real(size)
    x: Array = np.arange(outputs).astype(real)
    if scale == 1 and outputs == size and coordinates != "tf_crop_and_resize":
        return x  # ONNX's reference leaves such an axis out, also where tf_half_pixel_for_nn would move it by a half
    if coordinates == "tf_crop_and_resize":
        start, end = (np.float32(side) for side in crop)  # rounded as in ONNX's reference: it decides what is outside
        part, first = end - start, float(start * np.float32(last))
        if length <= 1:
            return np.full(outputs, float(part * np.float32(last) / np.float32(2)) + first)
        return np.asarray(x * float(part) * last / (length - real(1)) + first)
    if coordinates == "align_corners":
        return np.asarray(x * last / (length - real(1))) if length > 1 else x
    if coordinates == "asymmetric":
        return np.asarray(x / scale)
    if coordinates == "pytorch_half_pixel" and length <= 1:
        return x
    centres = np.asarray((x + half) / scale)
    if coordinates == "tf_half_pixel_for_nn":
        return centres
    offset = real(0)
    if coordinates == "half_pixel_symmetric":
        offset = real(size) * half * (real(1) - real(outputs) / length)
    return np.asarray(offset + centres - half)


def _rounded(rounding: str, places: Array) -> NDArray[np.int64]:
    match rounding:
        case "floor":
            whole = np.floor(places)
        case "ceil":
            whole = np.ceil(places)
        case "round_prefer_ceil":
            whole = np.floor(places + places.dtype.type(0.5))
        case _:
            whole = np.ceil(places - places.dtype.type(0.5))
    return whole.astype(np.int64)


def _interpolated(node: Node, places: Array, scale: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Taps around each place; with antialias the filter is as much wider as the image becomes smaller."""
    reach = 1 if node.attr("mode") == "linear" else 2
    shrink = min(scale, 1.0) if node.integer("antialias") else 1.0
    first = int(np.floor(-reach / shrink)) + 1
    offsets = np.arange(first, 2 - first if node.integer("antialias") else reach + 1)
    whole = np.floor(places)
    distances = np.abs((offsets - (places - whole)[:, None]) * shrink)
    tent = np.where(distances < 1, 1 - distances, 0.0)
    weights = tent if reach == 1 else _cubic(distances, node.real("cubic_a"))
    if node.integer("antialias"):
        weights = weights / _sum(weights)
    return whole.astype(np.int64)[:, None] + offsets, weights


def _cubic(x: Array, a: float) -> Array:
    """Keys' cubic convolution kernel at distances x >= 0."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _sum(weights: Array) -> Array:
    total = weights[:, :1]
    for tap in range(1, weights.shape[1]):
        total = total + weights[:, tap : tap + 1]
    return total
