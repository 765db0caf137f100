"""Random legal graphs of the Media dialect, for property tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kernelc.graph import Graph, weight_of
from kernelc.media.builder import GraphBuilder
from kernelc.symbols import Dim, symbol

UNARY = ("relu", "sigmoid", "tanh", "silu", "hard_swish")
KINDS = (
    "unary", "clip", "binary", "constant", "conv", "transposed", "pool", "larger", "joined", "gate", "matrix",
    "moved", "self-gated", "leaky", "sloped",
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn, *, most: int = 12, symbolic: bool = False) -> Graph:
    """A graph of up to `most` steps from one or two images; any values may be outputs. `symbolic` leaves N,H,W open."""
    build = GraphBuilder()
    sides: tuple[Dim, ...] = (symbol("s1"), symbol("s2")) if symbolic else (draw(st.integers(2, 5)), 4)
    batch: Dim = symbol("s0") if symbolic else 1
    images = [build.input(f"x{index}", "f32", (batch, 4, *sides)) for index in range(draw(st.integers(1, 2)))]
    values = list(images)
    for _ in range(draw(st.integers(1, most))):
        values.append(_step(draw, build, draw(st.sampled_from(KINDS)), values))
    chosen = draw(st.lists(st.sampled_from(values[len(images) :]), min_size=1, max_size=3, unique=True))
    return build.finish((f"y{index}", value) for index, value in enumerate(chosen))


def _constant(draw: st.DrawFn, build: GraphBuilder, *shape: int) -> str:
    seed = draw(st.integers(0, 5))  # few, so that equal constants occur
    array = np.random.Generator(np.random.PCG64(seed)).integers(-8, 9, shape).astype(np.float32) / 8
    return build.weight(weight_of(array, "f32"))


def _step(draw: st.DrawFn, build: GraphBuilder, kind: str, values: list[str]) -> str:
    value = draw(st.sampled_from(values))
    shape = build.tensors[value].shape
    if kind == "unary":
        return build.node(draw(st.sampled_from(UNARY)), [value])
    if kind == "clip":
        return build.node("clip", [value], {"min": draw(st.sampled_from([-1.0, 0.0])), "max": 6.0})
    if kind == "leaky":
        return build.node("leaky_relu", [value], {"alpha": draw(st.sampled_from([0.25, 0.0, 1.0, -0.5]))})
    if kind == "sloped":
        sizes = draw(st.sampled_from([(), (1,), (1, 4, 1, 1), (4, 1, 1)])) if len(shape) == 4 else ()
        return build.node("prelu", [value, _constant(draw, build, *sizes)])
    if kind == "self-gated":
        made = build.node(draw(st.sampled_from(UNARY)), [value]) if draw(st.booleans()) else value
        gate = draw(st.sampled_from([("sigmoid", {}), ("hard_sigmoid", {"alpha": 0.25, "beta": 0.375})]))
        pair = [made, build.node(gate[0], [made], gate[1])]
        return build.node("mul", pair[:: draw(st.sampled_from([1, -1]))])
    if kind == "binary":
        alike = [name for name in values if build.tensors[name].shape == shape]
        return build.node(draw(st.sampled_from(["add", "mul", "sub"])), [value, draw(st.sampled_from(alike))])
    if kind == "constant":
        sizes = draw(st.sampled_from([(), (1, 4, 1, 1), (4, 1, 1)])) if len(shape) == 4 else ()
        pair = [value, _constant(draw, build, *sizes)]
        return build.node(draw(st.sampled_from(["add", "mul", "sub"])), pair[:: draw(st.sampled_from([1, -1]))])
    if len(shape) != 4:
        return build.node("softmax", [value], {"axis": len(shape) - 1})
    return _image_step(draw, build, kind, value)


def _image_step(draw: st.DrawFn, build: GraphBuilder, kind: str, value: str) -> str:
    if kind == "conv":
        return _conv(draw, build, value)
    if kind == "transposed":
        return _conv_transpose(draw, build, value)
    if kind == "larger":
        return _larger_and_smaller(draw, build, value)
    if kind == "joined":
        both = build.node("concat", [value, build.node("relu", [value])], {"axis": 1})
        three = build.node("concat", [both, value], {"axis": 1})
        attrs: dict[str, Any] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
        return build.node("conv", [three, _constant(draw, build, 4, 12, 1, 1)], attrs)
    if kind == "moved":
        return _moved(draw, build, value)
    if kind == "pool":
        ones: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "ceil_mode": 0}
        return build.node("max_pool", [value], {"kernel": (2, 2), "pads": (1, 0, 0, 1)} | ones)
    pooled = build.node("global_average_pool", [value])
    if kind == "gate":
        return build.node("mul", [value, build.node("sigmoid", [pooled])])
    matrix = build.node("flatten", [pooled], {"axis": 1})
    return build.node("matmul", [matrix, _constant(draw, build, 4, 3)])


def _moved(draw: st.DrawFn, build: GraphBuilder, value: str) -> str:
    """Rows and columns exchanged twice, with the channels halved and joined in the other order between."""
    turned = build.node("transpose", [value], {"permutation": (0, 1, 3, 2)})
    bounds = [np.array([first], np.int64) for first in draw(st.sampled_from([(0, 2), (2, 0)]))]
    axis, step = (build.weight(weight_of(np.array([number], np.int64), "i64")) for number in (1, 1))
    halves = []
    for first in bounds:
        start, end = (build.weight(weight_of(first + more, "i64")) for more in (0, 2))
        halves.append(build.node("slice", [turned, start, end, axis, step]))
    return build.node("transpose", [build.node("concat", halves, {"axis": 1})], {"permutation": (0, 1, 3, 2)})


def _conv_transpose(draw: st.DrawFn, build: GraphBuilder, value: str) -> str:
    """One of stride 1, which keeps the size; a constant may be added, and a batch norm may follow."""
    group = draw(st.sampled_from([1, 2, 4]))
    attrs: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "output_padding": (0, 0)}
    result = build.node(
        "conv_transpose", [value, _constant(draw, build, 4, 4 // group, 3, 3)], attrs | {"group": group}
    )
    if draw(st.booleans()):
        result = build.node("add", [result, _constant(draw, build, 1, 4, 1, 1)])
    return _maybe_normalised(draw, build, result)


def _larger_and_smaller(draw: st.DrawFn, build: GraphBuilder, value: str) -> str:
    """Twice as large, then the largest of two by two."""
    places: dict[str, Any] = {"mode": draw(st.sampled_from(["nearest", "linear"])), "rounding": "floor"}
    places["coordinates"] = draw(st.sampled_from(["asymmetric", "half_pixel"]))
    attrs: dict[str, Any] = {"sizes": (), "scale_h": 2.0, "scale_w": 2.0, "antialias": 0, "exclude_outside": 0}
    attrs |= {"crop_top": 0.0, "crop_left": 0.0, "crop_bottom": 1.0, "crop_right": 1.0, "extrapolation": 0.0}
    larger = build.node("resize", [value], attrs | places | {"cubic_a": -0.75})
    window: dict[str, Any] = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    return build.node("max_pool", [larger], window | {"ceil_mode": 0})


def _conv(draw: st.DrawFn, build: GraphBuilder, value: str) -> str:
    group = draw(st.sampled_from([1, 4]))
    operands = [value, _constant(draw, build, 4, 4 // group, 3, 3)]
    if draw(st.booleans()):
        operands.append(_constant(draw, build, 4))
    attrs: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": group}
    return _maybe_normalised(draw, build, build.node("conv", operands, attrs))


def _maybe_normalised(draw: st.DrawFn, build: GraphBuilder, result: str) -> str:
    if not draw(st.booleans()):
        return result
    scale, shift, mean, var = (_constant(draw, build, 4) for _ in range(4))
    positive = build.node("mul", [var, var])
    return build.node("batch_norm", [result, scale, shift, mean, positive], {"epsilon": 0.5})
