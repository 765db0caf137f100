"""Reference meaning of the operations that slide a window: sums over taps and channels in row-major order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import Node
from kernelc.media.rules_window import window_sizes

Array = NDArray[Any]

_CACHED = 1 << 15
"""Elements that are summed up at a time."""


def conv(node: Node, operands: Sequence[Array]) -> Array:
    """Cross-correlation of [N,C,H,W] with [O,C/group,KH,KW] (ONNX Conv), the bias added last."""
    value, weight, *bias = operands
    group = node.integer("group")
    outputs, depth, *kernel = weight.shape
    strides, dilations = node.integers("strides"), node.integers("dilations")
    pads = node.integers("pads")
    height, width = window_sizes(value.shape[2:], tuple(kernel), strides, pads, dilations)
    assert isinstance(height, int) and isinstance(width, int)
    grouped = weight.reshape(group, outputs // group, depth, *kernel)
    padded = _padded(value, pads, 0).reshape(value.shape[0], group, depth, *_padded_size(value, pads))
    total = np.zeros((value.shape[0], group, outputs // group, height, width), value.dtype)
    for some in _in_cache(total):
        for channel in range(depth):
            taps = _taps(padded[:, :, channel], kernel, strides, dilations, (height, width))
            for (row, column), patch in taps:
                total[:, :, some] += patch[:, :, None] * grouped[None, :, some, channel, row, column, None, None]
    result = total.reshape(value.shape[0], outputs, height, width)
    return result + bias[0].reshape(-1, 1, 1) if bias else result


def _in_cache(total: Array) -> Iterator[slice]:
    """Output channels of [N, G, O, H, W] a few at a time: all sums of those stay in a cache. It changes no bit."""
    step = max(1, _CACHED // max(1, total.size // total.shape[2]))
    return (slice(first, first + step) for first in range(0, total.shape[2], step))


def conv_transpose(node: Node, operands: Sequence[Array]) -> Array:
    """Each element of [N,C,H,W] spreads w [C,O/group,KH,KW] over the result (ONNX ConvTranspose); bias last."""
    value, weight, *bias = operands
    group, (down, across) = node.integer("group"), node.integers("dilations")
    step, stride = node.integers("strides")
    batch, channels, rows, columns = value.shape
    _, depth, *kernel = weight.shape
    top, left, bottom, right = node.integers("pads")
    more_rows, more_columns = node.integers("output_padding")
    height = step * (rows - 1) + down * (kernel[0] - 1) + 1 + more_rows
    width = stride * (columns - 1) + across * (kernel[1] - 1) + 1 + more_columns
    grouped = value.reshape(batch, group, channels // group, rows, columns)
    spread = weight.reshape(group, channels // group, depth, *kernel)
    total = np.zeros((batch, group, depth, height, width), value.dtype)
    for channel in range(channels // group):
        for row, column in product(range(kernel[0]), range(kernel[1])):
            first, start = row * down, column * across
            total[
                ..., first : first + step * (rows - 1) + 1 : step, start : start + stride * (columns - 1) + 1 : stride
            ] += grouped[:, :, channel, None] * spread[None, :, channel, :, row, column, None, None]
    image = total.reshape(batch, group * depth, height, width)
    image = image[:, :, max(top, 0) : height - max(bottom, 0), max(left, 0) : width - max(right, 0)]
    around = [(max(-top, 0), max(-bottom, 0)), (max(-left, 0), max(-right, 0))]
    result = np.pad(image, [(0, 0), (0, 0), *around])
    return result + bias[0].reshape(-1, 1, 1) if bias else result


def max_pool(node: Node, operands: Sequence[Array]) -> Array:
    """Largest element of each window, NaN where one is NaN; padding is smaller than every element."""
    (value,) = operands
    lowest = -np.inf if value.dtype.kind == "f" else np.iinfo(value.dtype).min
    result: Array | None = None
    for patch in _pool_patches(node, value, lowest):
        result = patch if result is None else np.where((patch > result) | (patch != patch), patch, result)
    assert result is not None, "a window has an element"
    return result


def average_pool(node: Node, operands: Sequence[Array]) -> Array:
    """Mean of each window.

    The divisor counts elements of x, and with `count_include_pad` those of the padding too, but never what lies beyond
    the padding where `ceil_mode` lets the last window stick out (ONNX opset 19).
    """
    (value,) = operands
    inside = np.ones(value.shape[2:], value.dtype)
    if node.integer("count_include_pad"):
        inside = _padded(inside, node.integers("pads"), 1)
    total: Array = sum_in_order(_pool_patches(node, value, 0))
    if node.integer("count_include_pad"):
        counts = sum_in_order(_pool_patches(node, inside, 0, (0, 0, 0, 0), total.shape[2:]))
    else:
        counts = sum_in_order(_pool_patches(node, inside, 0))
    return total / counts


def global_average_pool(_: Node, operands: Sequence[Array]) -> Array:
    """Mean over all spatial elements of each channel of [N,C,...]."""
    (value,) = operands
    flat = value.reshape(*value.shape[:2], -1)
    total = sum_in_order(flat[..., index] for index in range(flat.shape[-1]))
    return (total / float(flat.shape[-1])).reshape(*value.shape[:2], *(1,) * (value.ndim - 2))


def reduce_mean(node: Node, operands: Sequence[Array]) -> Array:
    """Mean over the dimensions `axes`; over none it is x."""
    (value,) = operands
    axes = node.integers("axes")
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))
    moved = np.moveaxis(value, axes, range(len(axes)))
    flat = moved.reshape(-1, *moved.shape[len(axes) :])
    mean = sum_in_order(iter(flat)) / float(flat.shape[0])
    return mean.reshape(kept) if node.integer("keep_dims") else mean


def sum_in_order(items: Iterator[Array]) -> Array:
    """The sum of arrays, first to last."""
    total = next(items).copy()
    for item in items:
        total = total + item
    return total


def _pool_patches(
    node: Node, value: Array, fill: float, pads: tuple[int, ...] | None = None, sizes: tuple[int, ...] | None = None
) -> Iterator[Array]:
    """For each tap of the window, the element it meets at every output position; `fill` outside of `value`."""
    kernel, strides, dilations = node.integers("kernel"), node.integers("strides"), node.integers("dilations")
    pads = node.integers("pads") if pads is None else pads
    if sizes is None:
        found = window_sizes(
            value.shape[-2:], kernel, strides, pads, dilations, ceil_mode=bool(node.integer("ceil_mode"))
        )
        sizes = tuple(size for size in found if isinstance(size, int))
    reach = [(sizes[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(2)]
    after = [max(reach[i] - value.shape[-2 + i] - pads[i], 0) for i in range(2)]
    padded = _padded(value, (pads[0], pads[1], *after), fill)
    return (patch for _, patch in _taps(padded, kernel, strides, dilations, sizes))


def _padded(value: Array, pads: Sequence[int], fill: float) -> Array:
    spatial = ((pads[0], pads[2]), (pads[1], pads[3]))
    return np.pad(value, ((0, 0),) * (value.ndim - 2) + spatial, constant_values=fill)


def _padded_size(value: Array, pads: Sequence[int]) -> tuple[int, int]:
    return value.shape[-2] + pads[0] + pads[2], value.shape[-1] + pads[1] + pads[3]


def _taps(
    padded: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[tuple[int, int], Array]]:
    for row, column in product(range(kernel[0]), range(kernel[1])):
        top, left = row * dilations[0], column * dilations[1]
        bottom = top + (sizes[0] - 1) * strides[0] + 1
        right = left + (sizes[1] - 1) * strides[1] + 1
        yield (row, column), padded[..., top : bottom : strides[0], left : right : strides[1]]
