"""The reference on graphs small enough to compute by hand, and its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelc.graph import Graph, weight_of
from kernelc.media.builder import GraphBuilder
from kernelc.numerics.reference import evaluate, evaluate_all
from kernelfarm.errors import Code, FarmError

CONV = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
POOL = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": 0}


def _graph(op: str, shape: tuple[int, ...], *weights: Any, dtype: str = "f32", **attrs: Any) -> Graph:
    build = GraphBuilder()
    operands = [build.input("x", dtype, shape), *(build.weight(weight_of(np.asarray(w), dtype)) for w in weights)]
    return build.finish([("y", build.node(op, operands, attrs))])


def _run(op: str, value: Any, *weights: Any, **attrs: Any) -> Any:
    array = np.asarray(value, np.float32)
    return evaluate(_graph(op, array.shape, *weights, **attrs), {"x": array})["y"].tolist()


def test_a_convolution_with_stride_pads_dilation_groups_and_bias() -> None:
    image = np.arange(18).reshape(1, 2, 3, 3)
    ones = np.ones((2, 1, 2, 2))
    attrs = CONV | {"group": 2, "strides": (2, 2), "pads": (1, 1, 0, 0)}
    # windows at rows {-1,0} and {1,2}, columns likewise; group 1 is the same image plus 9
    assert _run("conv", image, ones, [0, 100], **attrs) == [[[[0, 3], [9, 24]], [[109, 121], [127, 160]]]]
    dilated = CONV | {"dilations": (2, 2)}
    assert _run("conv", image[:, :1], np.ones((1, 1, 2, 2)), **dilated) == [[[[0 + 2 + 6 + 8]]]]


def test_padding_never_wins_a_max_pool_even_among_negative_numbers() -> None:
    image = np.array([[[[-5, -3], [-2, -9]]]])
    assert _run("max_pool", image, **POOL | {"pads": (1, 1, 1, 1)}) == [[[[-5, -3], [-2, -9]]]]


def test_a_nan_in_a_window_is_its_largest_wherever_it_lies() -> None:
    for place in range(4):
        image = np.array([1.0, np.inf, -2.0, 3.0])
        image[place] = np.nan
        assert np.isnan(_run("max_pool", image.reshape(1, 1, 2, 2), **POOL)).all()


def test_an_average_pool_counts_padding_only_where_told() -> None:
    image = np.array([[[[4, 8], [12, 16]]]])
    attrs = POOL | {"pads": (1, 1, 1, 1)}
    assert _run("average_pool", image, **attrs, count_include_pad=0) == [[[[4, 8], [12, 16]]]]
    assert _run("average_pool", image, **attrs, count_include_pad=1) == [[[[1, 2], [3, 4]]]]


def test_an_average_pool_never_counts_what_lies_beyond_the_padding() -> None:
    image = np.ones((1, 1, 3, 3))
    attrs = POOL | {"ceil_mode": 1, "count_include_pad": 1}
    assert _run("average_pool", image, **attrs) == [[[[1, 1], [1, 1]]]]


def test_activations_and_normalisation() -> None:
    assert _run("hard_sigmoid", [-9, 0, 1, 9], alpha=0.2, beta=0.5) == [0, 0.5, np.float32(0.7), 1]
    assert _run("hard_swish", [-4, -3, 0, 3, 4]) == [0, 0, 0, 3, 4]
    assert _run("sigmoid", [0, -1000, 1000]) == [0.5, 0, 1]
    assert _run("batch_norm", [[5, 5]], [2, 1], [1, 0], [3, 5], [4, 1], epsilon=0.0) == [[3, 0]]


def test_what_is_below_zero_is_scaled_by_a_constant_or_by_a_slope_of_its_own() -> None:
    assert _run("leaky_relu", [-4, -0.0, 0, 4], alpha=0.25) == [-1, 0, 0, 4]
    assert _run("leaky_relu", [-4, 4], alpha=-2.0) == [8, 4]
    assert _run("prelu", [[-4, 4], [-4, -8]], [2, 0.5]) == [[-8, 4], [-8, -4]]
    assert _run("prelu", [[-4, 4], [-4, -8]], [[3], [-1]]) == [[-12, 4], [4, 8]]
    kept = _run("leaky_relu", [-0.0, np.inf, -np.inf, np.nan], alpha=0.5)
    assert np.signbit(kept[0]) and kept[1:3] == [np.inf, -np.inf] and np.isnan(kept[3])


def test_silu_and_layer_norm_by_hand() -> None:
    assert _run("silu", [0, -1000, 1000]) == [0, 0, 1000]
    assert _run("layer_norm", [[1, 3], [-4, 4]], epsilon=0.0) == [[-1, 1], [-1, 1]]
    assert _run("layer_norm", [[1, 3], [7, 7]], epsilon=15.0) == [[-0.25, 0.25], [0, 0]]


def test_softmax_of_large_numbers_and_along_any_axis() -> None:
    assert _run("softmax", [[1000, 1000], [0, -np.inf]], axis=1) == [[0.5, 0.5], [1, 0]]
    assert _run("softmax", [[7, 1000], [7, 1000]], axis=0) == [[0.5, 0.5], [0.5, 0.5]]


def test_sums_are_in_float64_and_rounded_once_at_the_output() -> None:
    ones = np.array([[1, 2.0**-24, 2.0**-24]])  # in float32, 1 + 2^-24 is 1
    assert _run("matmul", ones, np.ones((3, 1))) == [[1 + 2.0**-23]]
    graph = _graph("matmul", (1, 3), np.ones((3, 1)))
    assert evaluate_all(graph, {"x": ones.astype(np.float32)})[graph.outputs[0].tensor].dtype == np.float64


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"z": np.zeros((2,), np.float32)},
        {"x": np.zeros((2,), np.float32), "z": np.zeros((2,), np.float32)},
        {"x": np.zeros((3,), np.float32)},
        {"x": np.zeros((2,), np.float64)},
    ],
)
def test_inputs_must_be_those_of_the_graph(inputs: dict[str, Any]) -> None:
    with pytest.raises(FarmError) as caught:
        evaluate(_graph("relu", (2,)), inputs)
    assert caught.value.code is Code.SHAPE_MISMATCH
