"""Operators that make images larger, smaller or join them: compiled, run, compared; every cut gives equal bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kernelc.numerics import reference
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree, agree_however_cut, compile_graph, drawn_inputs, targets

Case = Callable[[Maker], tuple[str, ...]]
SIZES = {"scale_h": 0.0, "scale_w": 0.0}


def padded(make: Maker, x: str) -> str:
    """A reader that needs a halo around `x`."""
    return make.conv(x, 9, 3, pads=(1, 1, 1, 1))


def with_residual(make: Maker, x: str) -> str:
    """x + a value of its size, then relu: an epilogue with an operand."""
    other = make.input(*make.builder.tensors[x].static_shape)
    return make.node("relu", make.node("add", x, other))


CASES: dict[str, Case] = {
    "transposed-2x2-doubles": lambda m: (m.conv_transpose(m.input(1, 24, 5, 7), 24, 2),),
    "transposed-2x2-residual": lambda m: (with_residual(m, m.conv_transpose(m.input(1, 24, 5, 7), 24, 2)),),
    "transposed-to-one-channel": lambda m: (m.node("sigmoid", m.conv_transpose(m.input(1, 24, 9, 20), 1, 2)),),
    "transposed-output-padding": lambda m: (
        m.conv_transpose(m.input(1, 17, 5, 9), 21, 3, pads=(1, 1, 1, 1), output_padding=(1, 1)),
    ),
    "transposed-strides-1-3": lambda m: (
        m.conv_transpose(m.input(1, 17, 5, 9), 21, (3, 4), strides=(1, 3), pads=(0, 2, 1, 1)),
    ),
    "transposed-phases-without-taps": lambda m: (
        m.conv_transpose(m.input(1, 5, 4, 6), 9, (1, 2), strides=(3, 3), output_padding=(2, 2)),
    ),
    "transposed-nothing-arrives": lambda m: (
        m.conv_transpose(m.input(1, 5, 1, 6), 9, (1, 2), pads=(1, 0, 0, 0), output_padding=(1, 0)),
    ),
    "transposed-dilated": lambda m: (
        m.conv_transpose(m.input(1, 5, 4, 6), 9, 3, strides=(2, 3), dilations=(2, 2), pads=(1, 0, 0, 2), bias=False),
    ),
    "transposed-dilation-is-stride": lambda m: (
        m.conv_transpose(m.input(1, 5, 4, 6), 9, 3, strides=(3, 3), dilations=(3, 2)),
    ),
    "transposed-stride-1-halo": lambda m: (
        padded(m, m.conv_transpose(m.input(1, 5, 4, 6), 5, 5, strides=(1, 1), pads=(2, 2, 2, 2))),
    ),
    "transposed-negative-pads": lambda m: (
        padded(m, m.conv_transpose(m.input(1, 5, 4, 6), 9, 2, strides=(3, 3), pads=(-1, -2, 0, -1))),
    ),
    "transposed-depthwise-negative-pads": lambda m: (
        m.conv_transpose(m.input(1, 20, 4, 6), 20, 1, strides=(3, 2), pads=(-1, -1, -1, 0), group=20),
    ),
    "transposed-cropped": lambda m: (m.conv_transpose(m.input(1, 20, 4, 6), 20, 4, pads=(3, 3, 3, 4)),),
    "transposed-depthwise": lambda m: (
        padded(m, m.conv_transpose(m.input(1, 20, 4, 6), 20, 4, pads=(1, 1, 1, 1), group=20)),
    ),
    "nearest-doubles": lambda m: (m.resize(m.input(1, 20, 4, 6)),),
    "nearest-8-down": lambda m: (m.resize(m.input(1, 5, 3, 13), scale_h=8.0, scale_w=1.0),),
    "nearest-3-across-halo": lambda m: (padded(m, m.resize(m.input(1, 20, 4, 6), scale_w=3.0)),),
    "nearest-residual": lambda m: (with_residual(m, m.resize(m.input(1, 20, 4, 6), scale_h=1.0)),),
    "nearest-any-scale": lambda m: (
        m.resize(
            m.input(1, 5, 9, 11), coordinates="half_pixel", rounding="round_prefer_ceil", scale_h=0.6, scale_w=1.7
        ),
    ),
    "linear-half-pixel": lambda m: (m.resize(m.input(1, 20, 4, 6), mode="linear", coordinates="half_pixel"),),
    "linear-asymmetric-residual": lambda m: (with_residual(m, m.resize(m.input(1, 20, 4, 6), mode="linear")),),
    "linear-sizes-halo": lambda m: (
        padded(m, m.resize(m.input(1, 20, 4, 6), mode="linear", coordinates="align_corners", sizes=(7, 3), **SIZES)),
    ),
    "concat-blocks-that-fit": lambda m: (m.node("concat", m.input(1, 16, 3, 9), m.input(1, 32, 3, 9), axis=1),),
    "concat-half-blocks": lambda m: (m.node("concat", *[m.input(1, 24, 3, 9) for _ in range(4)], axis=1),),
    "concat-odd-channels-halo": lambda m: (
        padded(m, m.node("concat", *[m.input(1, channels, 3, 9) for channels in (3, 40, 17, 1)], axis=1)),
    ),
    "concat-rows": lambda m: (padded(m, m.node("concat", m.input(1, 20, 3, 9), m.input(1, 20, 1, 9), axis=2)),),
    "concat-columns": lambda m: (
        padded(m, m.node("concat", *[m.input(1, 20, 3, width) for width in (9, 1, 5)], axis=3)),
    ),
    "concat-vectors": lambda m: (m.node("concat", m.input(1, 20), m.input(1, 5), axis=1),),
    "concat-with-itself": lambda m: (m.node("concat", *[m.input(1, 20, 3, 2)] * 2, axis=1),),
}
ONLY_REFERENCE: dict[str, Case] = {
    "cubic": lambda m: (
        m.resize(m.input(1, 5, 9, 11), mode="cubic", coordinates="half_pixel", scale_h=0.6, scale_w=1.7),
    ),
    "antialias": lambda m: (
        m.resize(
            m.input(1, 5, 19, 21), mode="linear", coordinates="half_pixel", antialias=1, scale_h=0.3, scale_w=0.4
        ),
    ),
    "crop": lambda m: (
        m.resize(
            m.input(1, 5, 8, 9), mode="linear", coordinates="tf_crop_and_resize", sizes=(5, 4),
            crop_top=0.25, crop_left=-0.5, **SIZES,
        ),
    ),
}  # fmt: skip
"""Forms whose meaning the conformance tests hold against ONNX's own values."""


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("case", CASES)
def test_operator_agrees_with_numpy_however_it_is_cut(case: str, name: str, tmp_path: Path) -> None:
    make = Maker(seed=len(case))
    agree_however_cut(make.finish(*CASES[case](make)), name, tmp_path)


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("case", ONLY_REFERENCE)
def test_interpolation_agrees_with_the_reference(case: str, name: str, tmp_path: Path) -> None:
    make = Maker(seed=len(case))
    graph = make.finish(*ONLY_REFERENCE[case](make))

    inputs = drawn_inputs(graph)

    found = compile_graph(graph, name, tmp_path).run(inputs)

    expected = reference.evaluate(graph, {f"x{number}": value for number, value in enumerate(inputs)})
    for port, got in zip(graph.outputs, found, strict=True):
        agree(got, expected[port.name])


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("op", ["concat", "resize"])
def test_what_only_moves_keeps_every_bit(op: str, name: str, tmp_path: Path) -> None:
    make = Maker()
    x = make.input(1, 5, 3, 21)
    graph = make.finish(make.resize(x) if op == "resize" else make.node("concat", x, x, axis=1))
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, 3.5], np.float32)
    value = np.resize(special, (1, 5, 3, 21))

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    wanted = np.repeat(np.repeat(value, 2, 2), 2, 3) if op == "resize" else np.concatenate([value, value], 1)
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda m: m.conv_transpose(m.input(1, 8, 3, 3), 8, 2, group=2), "each group is one channel"),
        (lambda m: m.node("concat", m.input(1, 8, 3, 3), m.weight(1, 8, 3, 3), axis=1), "operands is a constant"),
        (
            lambda m: m.resize(m.input(1, 8, 3, 3), coordinates="tf_crop_and_resize", crop_top=-1.0, extrapolation=2.0),
            "extrapolation value",
        ),
        (
            lambda m: m.resize(m.input(1, 8, 3, 300), mode="linear", antialias=1, scale_w=0.02),
            "a column reads",
        ),
    ],
)
def test_a_form_that_is_not_lowered_is_refused_with_the_reason(
    build: Callable[[Maker], str], why: str, tmp_path: Path
) -> None:
    make = Maker()
    graph = make.finish(build(make))

    with pytest.raises(FarmError) as caught:
        compile_graph(graph, "x86-64-v3", tmp_path)

    assert caught.value.code is Code.OPERATOR_NOT_LOWERED
    assert why in caught.value.why
