"""What operators mean, once more and independent of the compiler: plain NumPy in float64, for batches of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelc.graph import Graph, Node

Array = npt.NDArray[np.float64]


def evaluate(graph: Graph, inputs: list[npt.ArrayLike]) -> list[Array]:
    """Outputs of the graph for its inputs in order."""
    values: dict[str, Array] = {name: np.asarray(weight.array, np.float64) for name, weight in graph.weights.items()}
    for port, value in zip(graph.inputs, inputs, strict=True):
        values[port.tensor] = np.asarray(value, np.float64)
    for node in graph.nodes:
        values[node.outputs[0]] = _MEANINGS[node.op](node, *(values[name] for name in node.operands))
    return [values[port.tensor] for port in graph.outputs]


def _conv(node: Node, x: Array, w: Array, b: Array | None = None) -> Array:
    (sh, sw), (dh, dw), group = node.integers("strides"), node.integers("dilations"), node.integer("group")
    top, left, bottom, right = node.integers("pads")
    padded = np.pad(x[0], ((0, 0), (top, bottom), (left, right)))
    outputs, depth, kh, kw = w.shape
    height = (padded.shape[1] - dh * (kh - 1) - 1) // sh + 1
    width = (padded.shape[2] - dw * (kw - 1) - 1) // sw + 1
    y = np.zeros((outputs, height, width)) + (0 if b is None else b[:, None, None])
    for channel in range(outputs):
        first = channel // (outputs // group) * depth
        for i, j in np.ndindex(kh, kw):
            rows = padded[first : first + depth, i * dh :, j * dw :][:, ::sh, ::sw][:, :height, :width]
            y[channel] += np.tensordot(w[channel, :, i, j], rows, 1)
    return y[None]


def _conv_transpose(node: Node, x: Array, w: Array, b: Array | None = None) -> Array:
    (sh, sw), (dh, dw), group = node.integers("strides"), node.integers("dilations"), node.integer("group")
    top, left, bottom, right = node.integers("pads")
    channels, rows, columns = x.shape[1:]
    _, depth, kh, kw = w.shape
    more_rows, more_columns = node.integers("output_padding")
    height = (rows - 1) * sh + (kh - 1) * dh + 1 + more_rows
    y = np.zeros((depth * group, height, (columns - 1) * sw + (kw - 1) * dw + 1 + more_columns))
    for channel, i, j in np.ndindex(channels, rows, columns):
        first = channel // (channels // group) * depth
        for k, m in np.ndindex(kh, kw):
            y[first : first + depth, i * sh + k * dh, j * sw + m * dw] += x[0, channel, i, j] * w[channel, :, k, m]
    around = [(max(-top, 0), max(-bottom, 0)), (max(-left, 0), max(-right, 0))]
    y = y[:, max(top, 0) : y.shape[1] - max(bottom, 0), max(left, 0) : y.shape[2] - max(right, 0)]
    y = np.pad(y, [(0, 0), *around])
    return (y + (0 if b is None else b[:, None, None]))[None]


def _resize(node: Node, x: Array) -> Array:
    """Nearest and linear without antialias, one output after another."""
    sizes = node.integers("sizes") or tuple(
        int(size * node.real(name)) for size, name in zip(x.shape[2:], ("scale_h", "scale_w"), strict=True)
    )
    y = np.zeros((*x.shape[:2], *sizes))
    for i, j in np.ndindex(*sizes):
        rows = _resized_from(node, i, x.shape[2], sizes[0], node.real("scale_h"))
        columns = _resized_from(node, j, x.shape[3], sizes[1], node.real("scale_w"))
        for (row, share), (column, part) in product(rows, columns):
            y[:, :, i, j] += share * part * x[:, :, row, column]
    return y


def _resized_from(node: Node, index: int, size: int, outputs: int, scale: float) -> list[tuple[int, float]]:
    scale = scale or outputs / size
    place = {
        "asymmetric": index / scale,
        "half_pixel": (index + 0.5) / scale - 0.5,
        "align_corners": index * (size - 1) / max(outputs - 1, 1),
    }[str(node.attr("coordinates"))]
    if node.attr("mode") == "nearest":
        rounding = {"floor": floor, "ceil": ceil, "round_prefer_ceil": lambda p: floor(p + 0.5)}
        return [(min(max(rounding[str(node.attr("rounding"))](place), 0), size - 1), 1.0)]
    low = floor(place)
    ends = [min(max(end, 0), size - 1) for end in (low, low + 1)]
    return [(ends[0], 1 - (place - low)), (ends[1], place - low)]


def _pool(node: Node, x: Array) -> Array:
    (kh, kw), (sh, sw), (dh, dw) = node.integers("kernel"), node.integers("strides"), node.integers("dilations")
    top, left, bottom, right = node.integers("pads")
    channels, rows, columns = x.shape[1:]
    sizes = ((rows + top + bottom, kh, sh, dh, top, rows), (columns + left + right, kw, sw, dw, left, columns))
    height, width = (_outputs(*size, ceil=bool(node.integer("ceil_mode"))) for size in sizes)
    y = np.zeros((1, channels, height, width))
    for i, j in np.ndindex(height, width):
        inside = [
            x[0, :, r, c]
            for r in range(i * sh - top, i * sh - top + kh * dh, dh)
            for c in range(j * sw - left, j * sw - left + kw * dw, dw)
            if 0 <= r < rows and 0 <= c < columns
        ]
        if node.op == "max_pool":
            y[0, :, i, j] = np.max(inside, axis=0)
        else:
            count = kh * kw if node.integer("count_include_pad") else len(inside)
            y[0, :, i, j] = np.sum(inside, axis=0) / count
    return y


def _outputs(padded: int, kernel: int, stride: int, dilation: int, before: int, size: int, *, ceil: bool) -> int:
    room = padded - dilation * (kernel - 1) - 1
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + before else count


def _softmax(node: Node, x: Array) -> Array:
    axis = node.integer("axis")
    power = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(power / power.sum(axis, keepdims=True))


def _layer_norm(node: Node, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + node.real("epsilon")))


def _rearrange(node: Node, x: Array) -> Array:
    y = np.zeros(node.integers("sizes"))
    for place in np.ndindex(*y.shape):
        y[place] = x.flat[node.integer("offset") + int(np.dot(place, node.integers("strides")))]
    return y.reshape(node.integers("shape"))


_MEANINGS: Mapping[str, Callable[..., Any]] = {
    "concat": lambda node, *xs: np.concatenate(xs, node.integer("axis")),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "matmul": lambda _, x, w, b=0.0: x @ w + b,
    "layer_norm": _layer_norm,
    "rearrange": _rearrange,
    "max_pool": _pool,
    "average_pool": _pool,
    "global_average_pool": lambda _, x: x.mean((2, 3), keepdims=True),
    "resize": _resize,
    "softmax": _softmax,
    "identity": lambda _, x: x,
    "layout_cast": lambda _, x: x,
    "reshape": lambda node, x: x.reshape(node.integers("shape")),
    "add": lambda _, x, y: x + y,
    "sub": lambda _, x, y: x - y,
    "mul": lambda _, x, y: x * y,
    "div": lambda _, x, y: x / y,
    "relu": lambda _, x: np.maximum(x, 0),
    "leaky_relu": lambda node, x: np.maximum(x, 0) + node.real("alpha") * np.minimum(x, 0),
    "prelu": lambda _, x, slope: np.maximum(x, 0) + slope * np.minimum(x, 0),
    "tanh": lambda _, x: np.tanh(x),
    "clip": lambda node, x: np.clip(x, node.real("min"), node.real("max")),
    "sigmoid": lambda _, x: 1 / (1 + np.exp(-x)),
    "silu": lambda _, x: x / (1 + np.exp(-x)),
    "sqrt": lambda _, x: np.sqrt(x),
    "hard_sigmoid": lambda node, x: np.clip(node.real("alpha") * x + node.real("beta"), 0, 1),
    "hard_swish": lambda _, x: x * np.clip(x / 6 + 0.5, 0, 1),
}
