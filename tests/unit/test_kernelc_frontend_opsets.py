"""One operator, two operator sets, two meanings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from kernelc.frontend import read
from kernelc.numerics.reference import evaluate
from kernelfarm.errors import Code, FarmError
from tests.support import onnx_files
from tests.support.onnx_files import node


def _run(folder: Path, nodes: list[Any], value: Any, opset: int, **weights: Any) -> np.ndarray:
    array = np.asarray(value, np.float32)
    model = onnx_files.model(nodes, {"x": array.shape}, weights=weights, opset=opset)
    return evaluate(onnx_files.load(folder, model), {"x": array})["y"]


def _code(folder: Path, nodes: list[Any], shape: list[int], opset: int, **weights: Any) -> Code:
    with pytest.raises(FarmError) as caught:
        onnx_files.load(folder, onnx_files.model(nodes, {"x": shape}, weights=weights, opset=opset))
    return caught.value.code


def test_the_newest_known_operator_set_is_the_packages() -> None:
    assert onnx.defs.onnx_opset_version() == read.NEWEST_OPSET


def test_clip_has_attributes_up_to_10_and_inputs_from_11_on(tmp_path: Path) -> None:
    old = [node("Clip", ["x"], ["y"], min=-1.0, max=2.0)]
    new = [node("Clip", ["x", "low", "high"], ["y"])]
    bounds = {"low": np.float32(-1), "high": np.float32(2)}
    assert _run(tmp_path, old, [-5, 0, 5], 10).tolist() == [-1, 0, 2]
    assert _run(tmp_path, new, [-5, 0, 5], 11, **bounds).tolist() == [-1, 0, 2]
    assert _run(tmp_path, [node("Clip", ["x", "", "high"], ["y"])], [-5, 0, 5], 11, **bounds).tolist() == [-5, 0, 2]
    assert _code(tmp_path, old, [3], 11) is Code.GRAPH_INVALID
    assert _code(tmp_path, new, [3], 10, **bounds) is Code.GRAPH_INVALID


def test_softmax_takes_all_later_dimensions_together_up_to_12_and_one_from_13_on(tmp_path: Path) -> None:
    nodes = [node("Softmax", ["x"], ["y"], axis=1)]
    zeros = np.zeros((1, 2, 4))
    assert _run(tmp_path, nodes, zeros, 12).reshape(-1).tolist() == [0.125] * 8
    assert _run(tmp_path, nodes, zeros, 13).reshape(-1).tolist() == [0.5] * 8
    by_default = [node("Softmax", ["x"], ["y"])]
    assert _run(tmp_path, by_default, zeros, 12).reshape(-1).tolist() == [0.125] * 8
    assert _run(tmp_path, by_default, zeros, 13).reshape(-1).tolist() == [0.25] * 8


def test_axes_of_squeeze_and_unsqueeze_move_from_attribute_to_input_at_13(tmp_path: Path) -> None:
    axes = {"axes": np.array([1], np.int64)}
    for operator, shape, expected in (("Squeeze", [2, 1, 3], (2, 3)), ("Unsqueeze", [2, 3], (2, 1, 3))):
        attribute, operand = [node(operator, ["x"], ["y"], axes=[1])], [node(operator, ["x", "axes"], ["y"])]
        assert _run(tmp_path, attribute, np.zeros(shape), 12).shape == expected
        assert _run(tmp_path, operand, np.zeros(shape), 13, **axes).shape == expected
        assert _code(tmp_path, attribute, shape, 13) is Code.GRAPH_INVALID
        assert _code(tmp_path, operand, shape, 12, **axes) is Code.GRAPH_INVALID


def test_slice_has_attributes_up_to_9_and_inputs_with_steps_from_10_on(tmp_path: Path) -> None:
    old = [node("Slice", ["x"], ["y"], starts=[1], ends=[-1], axes=[0])]
    new = [node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])]
    bounds = {name: np.array([at], np.int64) for name, at in (("starts", -1), ("ends", -9), ("axes", 0), ("steps", -2))}
    assert _run(tmp_path, old, [0, 1, 2, 3, 4], 9).tolist() == [1, 2, 3]
    assert _run(tmp_path, new, [0, 1, 2, 3, 4], 10, **bounds).tolist() == [4, 2, 0]


def test_a_zero_in_reshape_copies_unless_allowzero_which_came_with_14(tmp_path: Path) -> None:
    target = {"target": np.array([0, 2], np.int64)}
    assert _run(tmp_path, [node("Reshape", ["x", "target"], ["y"])], np.zeros((3, 2)), 13, **target).shape == (3, 2)
    allowed = [node("Reshape", ["x", "target"], ["y"], allowzero=1)]
    assert _run(tmp_path, allowed, np.zeros((0, 2)), 14, **target).shape == (0, 2)
    assert _code(tmp_path, allowed, [3, 2], 14, **target) is Code.GRAPH_INVALID
    assert _code(tmp_path, allowed, [3, 2], 13, **target) is Code.GRAPH_INVALID


def test_average_pool_learns_ceil_mode_at_10_and_dilations_at_19(tmp_path: Path) -> None:
    image = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    ceil = [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)]
    dilated = [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2])]
    assert _run(tmp_path, ceil, image, 10).reshape(-1).tolist() == [2, 3.5, 6.5, 8]
    assert _run(tmp_path, dilated, image, 19).reshape(-1).tolist() == [4]
    assert _code(tmp_path, ceil, [1, 1, 3, 3], 9) is Code.GRAPH_INVALID
    assert _code(tmp_path, dilated, [1, 1, 3, 3], 18) is Code.GRAPH_INVALID


def test_max_pool_learns_dilations_and_ceil_mode_at_10(tmp_path: Path) -> None:
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2], ceil_mode=1)]
    assert _run(tmp_path, nodes, np.arange(9).reshape(1, 1, 3, 3), 10).reshape(-1).tolist() == [8]
    assert _code(tmp_path, nodes, [1, 1, 3, 3], 9) is Code.GRAPH_INVALID


def test_negative_axes_of_concat_and_flatten_came_with_11(tmp_path: Path) -> None:
    concat, flatten = [node("Concat", ["x", "x"], ["y"], axis=-1)], [node("Flatten", ["x"], ["y"], axis=-1)]
    assert _run(tmp_path, concat, np.zeros((2, 3)), 11).shape == (2, 6)
    assert _run(tmp_path, flatten, np.zeros((2, 3, 4)), 11).shape == (6, 4)
    assert _code(tmp_path, concat, [2, 3], 10) is Code.GRAPH_INVALID
    assert _code(tmp_path, flatten, [2, 3, 4], 10) is Code.GRAPH_INVALID


def test_gemm_needs_c_up_to_10(tmp_path: Path) -> None:
    nodes = [node("Gemm", ["x", "b"], ["y"], alpha=2.0, transB=1)]
    matrix = {"b": np.array([[1, 2], [3, 4]], np.float32)}
    assert _run(tmp_path, nodes, [[1, 1]], 11, **matrix).tolist() == [[6, 14]]
    assert _code(tmp_path, nodes, [1, 2], 10, **matrix) is Code.GRAPH_INVALID


def test_shape_learns_start_and_end_at_15(tmp_path: Path) -> None:
    nodes = [node("Shape", ["x"], ["s"], start=1, end=-1), node("Reshape", ["x", "s"], ["y"])]
    assert _run(tmp_path, nodes, np.zeros((1, 6, 1)), 15).shape == (6,)
    assert _code(tmp_path, nodes, [1, 6, 1], 14) is Code.GRAPH_INVALID


def test_dropout_is_the_identity_and_refuses_training(tmp_path: Path) -> None:
    assert _run(tmp_path, [node("Dropout", ["x"], ["y"], ratio=0.9)], [1, 2], 10).tolist() == [1, 2]
    flagged = [node("Dropout", ["x", "ratio", "training"], ["y"])]
    ratio = np.float32(0.9)
    assert _run(tmp_path, flagged, [1, 2], 13, ratio=ratio, training=np.array(False)).tolist() == [1, 2]
    assert _code(tmp_path, flagged, [2], 13, ratio=ratio, training=np.array(True)) is Code.OPERATOR_FORM_UNSUPPORTED


def test_batch_normalization_of_opset_7_refuses_spatial_0(tmp_path: Path) -> None:
    channels = {name: np.ones(2, np.float32) for name in ("s", "b", "m", "v")}
    nodes = [node("BatchNormalization", ["x", *channels], ["y"], spatial=0)]
    assert _code(tmp_path, nodes, [1, 2, 3, 3], 7, **channels) is Code.OPERATOR_FORM_UNSUPPORTED
    assert _code(tmp_path, nodes, [1, 2, 3, 3], 9, **channels) is Code.GRAPH_INVALID


@pytest.mark.parametrize(("mode", "expected"), [("SAME_UPPER", [9, 8]), ("SAME_LOWER", [4, 9]), ("VALID", [9])])
def test_auto_pad_puts_the_odd_pad_after_or_before(tmp_path: Path, mode: str, expected: list[int]) -> None:
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[1, 3], strides=[1, 3], auto_pad=mode)]
    assert _run(tmp_path, nodes, [[[[1, 4, 9, 8, 7]]]], 12).reshape(-1).tolist() == expected


def test_leaky_relu_has_an_alpha_of_a_hundredth_as_float32_unless_told(tmp_path: Path) -> None:
    by_default, given = [node("LeakyRelu", ["x"], ["y"])], [node("LeakyRelu", ["x"], ["y"], alpha=-2.0)]
    for opset in (7, 16):
        assert _run(tmp_path, by_default, [-1, 3], opset).tolist() == [-np.float32(0.01), 3]
        assert _run(tmp_path, given, [-1, 3], opset).tolist() == [2, 3]
        assert _code(tmp_path, [node("LeakyRelu", ["x"], ["y"], alpha=1)], [2], opset) is Code.GRAPH_INVALID
        assert _code(tmp_path, [node("LeakyRelu", ["x"], ["y"], slope=1.0)], [2], opset) is Code.GRAPH_INVALID


def test_the_slope_of_prelu_spreads_over_the_input_and_never_the_other_way_round(tmp_path: Path) -> None:
    nodes = [node("PRelu", ["x", "slope"], ["y"])]
    image = -np.ones((1, 2, 1, 2))
    for opset in (7, 9, 16):
        by_channel = _run(tmp_path, nodes, image, opset, slope=np.array([2, 3], np.float32).reshape(2, 1, 1))
        assert by_channel.reshape(-1).tolist() == [-2, -2, -3, -3]
        by_column = _run(tmp_path, nodes, image, opset, slope=np.array([2, 3], np.float32))
        assert by_column.reshape(-1).tolist() == [-2, -3, -2, -3]
        for shape in ([2, 2, 1, 2], [1, 1, 1, 1, 1], [1, 3, 1, 1], [1, 2, 5, 2]):
            assert _code(tmp_path, nodes, [1, 2, 1, 2], opset, slope=np.ones(shape, np.float32)) is Code.GRAPH_INVALID


def test_prelu_learns_integers_of_32_and_64_bits_at_9(tmp_path: Path) -> None:
    def integers(dtype: Any, opset: int) -> Any:
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        nodes = [
            node("Cast", ["x"], ["a"], to=to), node("PRelu", ["a", "s"], ["b"]), node("Cast", ["b"], ["y"], to=1),
        ]  # fmt: skip
        return nodes, opset, {"s": np.array([3], dtype)}

    for dtype in (np.int32, np.int64):
        nodes, opset, weights = integers(dtype, 9)
        assert _run(tmp_path, nodes, [-2, 5], opset, **weights).tolist() == [-6, 5]
    for dtype, opset in ((np.int32, 8), (np.int8, 9), (np.int16, 16)):
        nodes, opset, weights = integers(dtype, opset)
        assert _code(tmp_path, nodes, [2], opset, **weights) is Code.GRAPH_INVALID


def test_tanh_takes_no_attribute(tmp_path: Path) -> None:
    for opset in (7, 13):
        assert _run(tmp_path, [node("Tanh", ["x"], ["y"])], [0, 100, -100], opset).tolist() == [0, 1, -1]
        assert _code(tmp_path, [node("Tanh", ["x"], ["y"], alpha=1.0)], [2], opset) is Code.GRAPH_INVALID
