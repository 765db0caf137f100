"""Every class of operator on small odd shapes, compiled, run, compared with plain NumPy; every cut gives equal bits.

Shapes are chosen against the tiles: channels that fill no block, rows shorter than a tile, single rows and columns,
strides and pads that differ by axis. The arena starts as NaN, so whatever a kernel fails to write shows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kernelc.graph import Graph
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree_however_cut, compile_graph, targets

Case = Callable[[Maker], tuple[str, ...]]


def pooling(op: str, x: str, make: Maker, **attrs: object) -> str:
    given = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": 0, **attrs}
    if op == "average_pool":
        given.setdefault("count_include_pad", 0)
    return make.node(op, x, **given)  # type: ignore[arg-type]


def squeeze_and_excite(make: Maker) -> tuple[str, ...]:
    x = make.node("relu", make.conv(make.input(1, 3, 12, 20), 20, 3, pads=(1, 1, 1, 1), strides=(2, 1)))
    gate = make.conv(make.node("global_average_pool", x), 5, 1)
    gate = make.node("hard_sigmoid", make.conv(make.node("relu", gate), 20, 1), alpha=0.2, beta=0.5)
    return (make.conv(make.node("mul", x, gate), 9, 1),)


def residual(make: Maker) -> tuple[str, ...]:
    x = make.conv(make.input(1, 16, 5, 11), 24, 1)
    inner = make.conv(make.node("hard_swish", x), 24, 3, pads=(1, 1, 1, 1))
    return (make.node("relu", make.node("add", inner, x)), x)


def classifier(make: Maker) -> tuple[str, ...]:
    pooled = make.node("global_average_pool", make.input(1, 37, 3, 5))
    flat = make.node("reshape", pooled, shape=(1, 37))
    scores = make.node("matmul", flat, make.weight(37, 19, scale=0.2), make.weight(19))
    return (make.node("softmax", scores, axis=1),)


def halos_of_two_readers(make: Maker) -> tuple[str, ...]:
    x = make.node("relu", make.input(1, 18, 6, 7))
    wide = make.conv(x, 18, (1, 5), pads=(0, 2, 0, 2), group=18)
    return (make.node("add", wide, x), make.conv(x, 7, 3, pads=(1, 0, 1, 2)))


def identity_of_input(make: Maker) -> tuple[str, ...]:
    x = make.input(1, 3, 5, 9)
    return (make.node("identity", x), make.conv(x, 4, 3, pads=(1, 1, 1, 1)))


def the_same_result_twice(make: Maker) -> tuple[str, ...]:
    y = make.node("relu", make.conv(make.input(1, 20, 5, 9), 19, 3))
    return (make.conv(y, 4, 3, pads=(1, 1, 1, 1)), make.node("identity", y), y)


CASES: dict[str, Case] = {
    "conv-1x1": lambda m: (m.conv(m.input(1, 24, 7, 9), 40, 1),),
    "conv-1x1-one-pixel": lambda m: (m.conv(m.input(1, 33, 1, 1), 50, 1),),
    "conv-1x1-strided": lambda m: (m.conv(m.input(1, 16, 5, 9), 17, 1, strides=(2, 3), bias=False),),
    "conv-1x1-padded": lambda m: (m.conv(m.input(1, 4, 3, 4), 4, 1, pads=(1, 2, 0, 1)),),
    "conv-3x3": lambda m: (m.conv(m.input(1, 20, 9, 13), 21, 3, pads=(1, 1, 1, 1)),),
    "conv-3x3-no-pads": lambda m: (m.conv(m.input(1, 17, 6, 8), 16, 3),),
    "conv-3x3-one-row": lambda m: (m.conv(m.input(1, 8, 1, 30), 24, 3, pads=(1, 1, 1, 1)),),
    "conv-3x3-one-column": lambda m: (m.conv(m.input(1, 8, 9, 1), 24, 3, pads=(1, 1, 1, 1)),),
    "conv-3x3-strides-2-1": lambda m: (m.conv(m.input(1, 24, 8, 11), 8, 3, strides=(2, 1), pads=(1, 1, 1, 1)),),
    "conv-asymmetric-pads": lambda m: (m.conv(m.input(1, 5, 7, 6), 12, (2, 4), pads=(0, 2, 1, 1), strides=(1, 2)),),
    "conv-dilated": lambda m: (m.conv(m.input(1, 9, 9, 12), 10, 3, pads=(2, 3, 2, 3), dilations=(2, 3)),),
    "conv-first-layer": lambda m: (m.conv(m.input(1, 3, 13, 19), 8, 3, strides=(2, 2), pads=(1, 1, 1, 1)),),
    "conv-7x7": lambda m: (m.conv(m.input(1, 1, 9, 17), 18, 7, strides=(2, 2), pads=(3, 3, 3, 3)),),
    "conv-kernel-taller-than-image": lambda m: (m.conv(m.input(1, 6, 2, 9), 6, 5, pads=(2, 2, 2, 2)),),
    "conv-no-input-for-a-row": lambda m: (m.conv(m.input(1, 2, 1, 3), 3, 1, pads=(2, 0, 2, 0)),),
    "conv-wide-window": lambda m: (m.conv(m.input(1, 37, 2, 70), 18, (2, 40), pads=(1, 3, 0, 9)),),
    "conv-wide-window-first-layer": lambda m: (m.conv(m.input(1, 3, 3, 90), 17, (1, 30), strides=(1, 4)),),
    "conv-wide-padding": lambda m: (
        m.conv(m.node("relu", m.input(1, 20, 3, 9)), 9, 3, dilations=(1, 150), pads=(0, 170, 1, 160), strides=(1, 3)),
    ),
    "depthwise-wide-window": lambda m: (
        m.conv(m.input(1, 18, 3, 60), 18, (2, 33), group=18, dilations=(1, 2), pads=(0, 20, 0, 30)),
    ),
    "depthwise-3x3": lambda m: (m.conv(m.input(1, 40, 6, 15), 40, 3, pads=(1, 1, 1, 1), group=40),),
    "depthwise-5x5-strides-2-1": lambda m: (
        m.conv(m.input(1, 24, 7, 21), 24, 5, pads=(2, 2, 2, 2), strides=(2, 1), group=24),
    ),
    "depthwise-narrow": lambda m: (m.conv(m.input(1, 3, 9, 2), 3, 3, pads=(1, 1, 1, 1), group=3, bias=False),),
    "depthwise-dilated": lambda m: (
        m.conv(m.input(1, 18, 7, 9), 18, 3, pads=(2, 2, 2, 2), dilations=(2, 2), strides=(1, 2), group=18),
    ),
    "matmul": lambda m: (m.node("matmul", m.input(1, 45), m.weight(45, 70, scale=0.2)),),
    "matmul-bias": lambda m: (m.node("matmul", m.input(1, 16), m.weight(16, 3), m.weight(3)),),
    "global-average": lambda m: (m.node("global_average_pool", m.input(1, 35, 5, 27)),),
    "global-average-one-column": lambda m: (m.node("global_average_pool", m.input(1, 3, 17, 1)),),
    "max-pool": lambda m: (pooling("max_pool", m.input(1, 20, 6, 10), m),),
    "max-pool-pads": lambda m: (
        pooling("max_pool", m.input(1, 9, 7, 8), m, kernel=(3, 3), pads=(1, 1, 1, 1), strides=(2, 1)),
    ),
    "max-pool-ceil": lambda m: (pooling("max_pool", m.input(1, 4, 6, 9), m, kernel=(3, 2), ceil_mode=1),),
    "max-pool-dilated": lambda m: (
        pooling("max_pool", m.input(1, 4, 8, 9), m, kernel=(2, 2), dilations=(2, 3), strides=(1, 1), pads=(1, 2, 0, 1)),
    ),
    "average-pool": lambda m: (
        pooling("average_pool", m.input(1, 18, 5, 9), m, kernel=(3, 3), pads=(1, 1, 1, 1), strides=(1, 2)),
    ),
    "average-pool-counting-pads": lambda m: (
        pooling("average_pool", m.input(1, 5, 5, 5), m, kernel=(3, 2), pads=(1, 1, 1, 0), count_include_pad=1),
    ),
    "max-pool-wide-window": lambda m: (
        pooling("max_pool", m.input(1, 9, 2, 60), m, kernel=(2, 25), pads=(1, 3, 0, 2), strides=(1, 2)),
    ),
    "average-pool-wide-window": lambda m: (
        pooling("average_pool", m.input(1, 9, 2, 60), m, kernel=(1, 57), pads=(0, 4, 0, 3), strides=(1, 1)),
    ),
    "identity-of-input-beside-a-result": identity_of_input,
    "the-same-result-twice": the_same_result_twice,
    "relu": lambda m: (m.node("relu", m.input(1, 5, 3, 7)),),
    "leaky-relu": lambda m: (m.node("leaky_relu", m.input(1, 5, 3, 7), alpha=0.2),),
    "leaky-relu-steep": lambda m: (m.node("leaky_relu", m.conv(m.input(1, 20, 3, 20), 9, 1), alpha=-1.5),),
    "leaky-relu-apart": lambda m: (m.node("leaky_relu", m.conv(m.input(1, 3, 5, 19), 2, 3), alpha=0.2),),
    "prelu-channels": lambda m: (m.node("prelu", m.input(1, 18, 3, 21), m.weight(1, 18, 1, 1)),),
    "prelu-after-conv": lambda m: (m.node("prelu", m.conv(m.input(1, 20, 5, 13), 37, 3), m.weight(1, 37, 1, 1)),),
    "prelu-apart": lambda m: (m.node("prelu", m.conv(m.input(1, 3, 5, 19), 3, 3), m.weight(1, 3, 1, 1)),),
    "prelu-one-slope": lambda m: (m.node("prelu", m.input(1, 5, 3, 7), m.constant(0.25)),),
    "prelu-whole-slope": lambda m: (m.node("prelu", m.input(1, 17, 3, 7), m.weight(1, 17, 3, 7)),),
    "prelu-slopes-computed": lambda m: (m.node("prelu", m.input(1, 18, 3, 5), m.input(1, 18, 1, 1)),),
    "prelu-slope-first-made": lambda m: (m.node("prelu", m.input(1, 9, 3, 5), m.node("relu", m.input(1, 9, 3, 5))),),
    "prelu-of-itself": lambda m: (m.node("prelu", *[m.input(1, 7, 3, 5)] * 2),),
    "prelu-of-a-pixel": lambda m: (m.node("prelu", m.node("matmul", m.input(1, 9), m.weight(9, 21)), m.weight(1, 21)),),
    "tanh": lambda m: (m.node("tanh", m.input(1, 20, 3, 20)),),
    "tanh-after-conv": lambda m: (m.node("tanh", m.conv(m.input(1, 5, 9, 20), 21, 5, pads=(2, 2, 2, 2))),),
    "tanh-apart": lambda m: (m.node("tanh", m.conv(m.input(1, 5, 9, 20), 3, 3)),),
    "clip": lambda m: (m.node("clip", m.input(1, 17, 2, 9), min=-0.5, max=0.75),),
    "hard-sigmoid": lambda m: (m.node("hard_sigmoid", m.input(1, 16, 1, 8), alpha=0.2, beta=0.5),),
    "hard-swish": lambda m: (m.node("hard_swish", m.input(1, 20, 3, 20)),),
    "sigmoid": lambda m: (m.node("sigmoid", m.input(1, 20, 3, 20)),),
    "silu": lambda m: (m.node("silu", m.conv(m.input(1, 20, 3, 20), 9, 1)),),
    "sqrt": lambda m: (m.node("sqrt", m.node("clip", m.input(1, 20, 3, 7), min=0.0, max=2.0)),),
    "add-values": lambda m: (m.node("add", m.input(1, 7, 3, 5), m.input(1, 7, 3, 5)),),
    "add-itself": lambda m: (m.node("add", *[m.input(1, 7, 3, 5)] * 2),),
    "sub-scalar-left": lambda m: (m.node("sub", m.constant(1.5), m.input(1, 7, 3, 5)),),
    "div-by-channel": lambda m: (m.node("div", m.input(1, 18, 3, 5), m.constant(np.arange(1, 19).reshape(18, 1, 1))),),
    "div-of-channel": lambda m: (
        m.node("div", m.weight(1, 18, 1, 1), m.node("clip", m.input(1, 18, 3, 5), min=0.5, max=9.0)),
    ),
    "mul-by-whole-constant": lambda m: (m.node("mul", m.weight(1, 18, 3, 5), m.input(1, 18, 3, 5)),),
    "mul-by-channel-value": lambda m: (m.node("mul", m.input(1, 18, 1, 1), m.input(1, 18, 3, 5)),),
    "softmax-classes": lambda m: (m.node("softmax", m.node("mul", m.input(1, 37), m.constant(9.0)), axis=1),),
    "softmax-two-classes": lambda m: (m.node("softmax", m.input(1, 2), axis=1),),
    "softmax-pixels": lambda m: (m.node("relu", m.node("softmax", m.input(1, 19, 3, 4), axis=1)),),
    "identity-of-input": lambda m: (m.input(1, 5, 3, 33),),
    "squeeze-and-excite": squeeze_and_excite,
    "residual": residual,
    "classifier": classifier,
    "halos-of-two-readers": halos_of_two_readers,
}


def graph_of(case: str) -> Graph:
    make = Maker(seed=len(case))
    return make.finish(*CASES[case](make))


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("case", CASES)
def test_operator_agrees_with_numpy_however_it_is_cut(case: str, name: str, tmp_path: Path) -> None:
    agree_however_cut(graph_of(case), name, tmp_path)


@pytest.mark.parametrize("name", targets())
def test_a_layout_cast_moves_bits_unchanged(name: str, tmp_path: Path) -> None:
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, 3.5], np.float32)
    value = np.resize(special, (1, 5, 3, 21))

    (found,) = compile_graph(graph_of_cast(), name, tmp_path).run([value])

    assert found.tobytes() == value.tobytes()


def graph_of_cast() -> Graph:
    make = Maker()
    return make.finish(make.input(1, 5, 3, 21))


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("op", ["relu", "hard_swish", "sigmoid", "silu", "sqrt", "tanh"])
def test_nan_stays_nan(op: str, name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(make.node(op, make.input(1, 20, 2, 3)))
    value = np.ones((1, 20, 2, 3), np.float32)
    value[0, 17, 1, 2] = np.nan

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    assert np.isnan(found[0, 17, 1, 2])
    assert np.isnan(found).sum() == 1


@pytest.mark.parametrize("name", targets())
def test_hard_swish_of_the_largest_numbers_does_not_overflow(name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(make.node("hard_swish", make.input(1, 4, 1, 4)))
    row = np.array([3.4e38, 5.9e37, -3.4e38, 1e-38], np.float32)

    (found,) = compile_graph(graph, name, tmp_path).run([np.resize(row, (1, 4, 1, 4))])

    np.testing.assert_allclose(found[0, 0, 0], np.array([3.4e38, 5.9e37, 0, 5e-39]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", targets())
def test_silu_far_below_zero_is_nothing(name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(make.node("silu", make.input(1, 4, 1, 4)))
    row = np.array([-3.4e38, -1e36, -100, 3.4e38], np.float32)

    (found,) = compile_graph(graph, name, tmp_path).run([np.resize(row, (1, 4, 1, 4))])

    np.testing.assert_allclose(found[0, 0, 0], np.array([0, 0, 0, 3.4e38]), rtol=1e-6, atol=1e-35)


@pytest.mark.parametrize("name", targets())
def test_the_largest_of_a_window_with_nan_is_nan(name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(pooling("max_pool", make.input(1, 5, 2, 6), make))
    value = np.ones((1, 5, 2, 6), np.float32)
    value[0, 4, 1, 3] = np.nan

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    assert np.argwhere(np.isnan(found)).tolist() == [[0, 4, 0, 1]]


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e-45, -3e-45, -3.4e38, 2.5, -4.0], np.float32)


def special_activations() -> Graph:
    """LeakyRelu, PRelu with a scalar and with slopes by channel, and tanh, of one image."""
    make = Maker()
    x = make.input(1, 18, 1, SPECIAL.size)
    return make.finish(
        make.node("leaky_relu", x, alpha=0.5),
        make.node("prelu", x, make.constant(0.5)),
        make.node("prelu", x, make.constant(np.full((1, 18, 1, 1), 0.5))),
        make.node("tanh", x),
    )


def check_special(found: list[npt.NDArray[np.float32]], *, flushes: bool = False) -> None:
    """Every channel has the right answers for `SPECIAL`; a machine that `flushes` takes denormal numbers for zero."""
    halved = np.where(SPECIAL < 0, SPECIAL * np.float32(0.5), SPECIAL)
    tangent = np.array([0.0, -0.0, 1, -1, np.nan, 3e-45, -3e-45, -1, np.tanh(2.5), np.tanh(-4.0)], np.float32)
    least = np.finfo(np.float32).tiny
    for got, wanted in zip(found, [halved, halved, halved, tangent], strict=True):
        for row in got[0, :, 0]:
            small = np.abs(wanted) < least
            np.testing.assert_allclose(row[~small], wanted[~small], rtol=3e-7, atol=0, equal_nan=True)
            assert ((row[small] == wanted[small]) | (flushes & (np.abs(row[small]) < least))).all()
            numbers = ~np.isnan(wanted)
            assert (np.signbit(row[numbers]) == np.signbit(wanted[numbers])).all()


@pytest.mark.parametrize("name", targets())
def test_special_values_of_leaky_relu_prelu_and_tanh(name: str, tmp_path: Path) -> None:
    value = np.resize(SPECIAL, (1, 18, 1, SPECIAL.size))

    check_special(compile_graph(special_activations(), name, tmp_path).run([value]))
