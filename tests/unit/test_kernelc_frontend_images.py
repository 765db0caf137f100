"""Resize, Upsample, ConvTranspose and ReduceMean: what each operator set says, sizes in symbols, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelc import frontend
from kernelc.layout.window import Phase, phases
from kernelc.lowering.concat import Piece, pieces
from kernelc.numerics.reference import evaluate
from kernelfarm.errors import Code, FarmError
from tests.support import onnx_files
from tests.support.onnx_files import node

ROW = np.array([[[[1, 2, 3, 4]]]], np.float32)
DOUBLE = np.array([1, 1, 1, 2], np.float32)
NONE = np.array([], np.float32)


def _run(folder: Path, nodes: list[Any], value: Any, opset: int, **weights: Any) -> np.ndarray:
    array = np.asarray(value, np.float32)
    graph = onnx_files.load(folder, onnx_files.model(nodes, {"x": array.shape}, weights=weights, opset=opset))
    result = evaluate(graph, {"x": array})["y"]
    np.testing.assert_allclose(evaluate(frontend.simplify(graph), {"x": array})["y"], result, rtol=1e-6)
    return result


def _error(folder: Path, nodes: list[Any], shape: list[int | str], opset: int, **weights: Any) -> FarmError:
    with pytest.raises(FarmError) as caught:
        onnx_files.load(
            folder,
            onnx_files.model(nodes, {"x": shape}, weights=weights, opset=opset),
            allow_symbolic=any(isinstance(size, str) for size in shape),
        )
    return caught.value


def test_scales_move_from_attribute_to_input_and_upsample_becomes_resize(tmp_path: Path) -> None:
    attribute = [node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 1.0, 2.0])]
    operand = [node("Upsample", ["x", "scales"], ["y"])]
    resize = [node("Resize", ["x", "scales"], ["y"])]
    doubled = [1, 1, 2, 2, 3, 3, 4, 4]
    assert _run(tmp_path, attribute, ROW, 7).reshape(-1).tolist() == doubled
    assert _run(tmp_path, operand, ROW, 9, scales=DOUBLE).reshape(-1).tolist() == doubled
    assert _run(tmp_path, resize, ROW, 10, scales=DOUBLE).reshape(-1).tolist() == doubled


def test_linear_places_are_index_by_scale_up_to_10_and_centres_from_11_on(tmp_path: Path) -> None:
    old = [node("Resize", ["x", "scales"], ["y"], mode="linear")]
    new = [node("Resize", ["x", "roi", "scales"], ["y"], mode="linear")]
    assert _run(tmp_path, old, ROW, 10, scales=DOUBLE).reshape(-1).tolist() == [1, 1.5, 2, 2.5, 3, 3.5, 4, 4]
    centred = _run(tmp_path, new, ROW, 11, scales=DOUBLE, roi=NONE).reshape(-1).tolist()
    assert centred == [1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4]


def test_roi_is_optional_from_13_on(tmp_path: Path) -> None:
    nodes = [node("Resize", ["x", "", "scales"], ["y"])]
    assert _run(tmp_path, nodes, ROW, 13, scales=DOUBLE).shape == (1, 1, 1, 8)
    assert _error(tmp_path, nodes, [1, 1, 1, 4], 11, scales=DOUBLE).code is Code.GRAPH_INVALID


def test_axes_antialias_and_policies_came_with_18_and_symmetric_centres_with_19(tmp_path: Path) -> None:
    sizes = {"sizes": np.array([8], np.int64)}
    axes = [node("Resize", ["x", "", "", "sizes"], ["y"], axes=[3])]
    assert _run(tmp_path, axes, ROW, 18, **sizes).shape == (1, 1, 1, 8)
    assert _error(tmp_path, axes, [1, 1, 1, 4], 13, **sizes).code is Code.GRAPH_INVALID
    scaled = ["x", "", "scales"]
    symmetric = [node("Resize", scaled, ["y"], coordinate_transformation_mode="half_pixel_symmetric")]
    assert _run(tmp_path, symmetric, ROW, 19, scales=DOUBLE).shape == (1, 1, 1, 8)
    assert _error(tmp_path, symmetric, [1, 1, 1, 4], 18, scales=DOUBLE).code is Code.GRAPH_INVALID


def test_tf_half_pixel_for_nn_is_gone_from_13_on(tmp_path: Path) -> None:
    nodes = [node("Resize", ["x", "roi", "scales"], ["y"], coordinate_transformation_mode="tf_half_pixel_for_nn",
                  nearest_mode="floor")]  # fmt: skip
    weights = {"roi": NONE, "scales": DOUBLE}
    assert _run(tmp_path, nodes, ROW, 11, **weights).reshape(-1).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert _error(tmp_path, nodes, [1, 1, 1, 4], 13, **weights).code is Code.GRAPH_INVALID


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("round_prefer_floor", [1, 2, 2, 3, 3, 4]),
        ("round_prefer_ceil", [1, 2, 2, 3, 4, 4]),
        ("floor", [1, 1, 2, 2, 3, 4]),
        ("ceil", [1, 2, 3, 3, 4, 4]),
    ],
)
def test_a_nearest_place_between_two_elements_is_rounded_as_told(
    tmp_path: Path, rounding: str, expected: list[int]
) -> None:
    # index / 1.6: places 0, 0.625, 1.25, 1.875, 2.5, 3.125
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    nodes = [node("Resize", ["x", "", "scales"], ["y"], **how)]
    scales = np.array([1, 1, 1, 1.6], np.float32)
    assert _run(tmp_path, nodes, ROW, 13, scales=scales).reshape(-1).tolist() == expected


def test_an_upsample_that_shrinks_is_refused_because_nothing_says_what_it_means(tmp_path: Path) -> None:
    nodes = [node("Resize", ["x", "scales"], ["y"])]
    error = _error(tmp_path, nodes, [1, 1, 1, 4], 10, scales=np.array([1, 1, 1, 0.5], np.float32))
    assert error.code is Code.OPERATOR_FORM_UNSUPPORTED


@pytest.mark.parametrize(
    ("inputs", "weights", "code"),
    [
        (["x", "", "scales"], {"scales": np.array([1, 2, 1, 1], np.float32)}, Code.OPERATOR_FORM_UNSUPPORTED),
        (["x", "", "scales"], {"scales": np.array([1, 1, 1], np.float32)}, Code.GRAPH_INVALID),
        (["x", "", "scales"], {"scales": np.array([1, 1, 0, 1], np.float32)}, Code.GRAPH_INVALID),
        (["x", "", "scales"], {"scales": np.array([1, 1, np.nan, 1], np.float32)}, Code.GRAPH_INVALID),
        (["x", "", "scales", "sizes"], {"scales": DOUBLE, "sizes": np.array([1, 1, 1, 8])}, Code.GRAPH_INVALID),
        (["x", "", "", "sizes"], {"sizes": np.array([1, 1, -1, 8])}, Code.GRAPH_INVALID),
        (["x", "", "", "sizes"], {"sizes": np.array([2, 1, 1, 8])}, Code.OPERATOR_FORM_UNSUPPORTED),
        (["x"], {}, Code.GRAPH_INVALID),
        (["x", "", "x"], {}, Code.OPERATOR_FORM_UNSUPPORTED),
    ],
)
def test_scales_and_sizes_that_make_no_image_are_refused(
    tmp_path: Path, inputs: list[str], weights: dict[str, Any], code: Code
) -> None:
    assert _error(tmp_path, [node("Resize", inputs, ["y"])], [1, 1, 1, 4], 13, **weights).code is code


def test_sizes_are_followed_in_symbols_where_the_scale_is_whole(tmp_path: Path) -> None:
    nodes = [node("Resize", ["x", "", "scales"], ["a"]), node("ConvTranspose", ["a", "w"], ["y"], strides=[2, 2])]
    weights = {"scales": np.array([1, 1, 0.5, 2], np.float32), "w": np.zeros((3, 5, 2, 2), np.float32)}
    model = onnx_files.model(nodes, {"x": ["n", 3, "h", "w"]}, weights=weights, opset=13)
    graph = onnx_files.load(tmp_path, model, allow_symbolic=True)
    assert [str(size) for size in graph.result(graph.nodes[-1]).shape] == ["s0", "5", "2*(s1 floordiv 2)", "4*s2"]
    odd = weights | {"scales": np.array([1, 1, 1.3, 2], np.float32)}
    assert _error(tmp_path, nodes, ["n", 3, "h", "w"], 13, **odd).code is Code.SHAPE_NOT_INFERRED


def test_axes_of_reduce_mean_move_from_attribute_to_input_at_18(tmp_path: Path) -> None:
    value = np.arange(12).reshape(1, 3, 2, 2)
    attribute = [node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)]
    operand = [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)]
    axes = {"axes": np.array([-1, 2], np.int64)}
    assert _run(tmp_path, attribute, value, 13).tolist() == [[1.5, 5.5, 9.5]]
    assert _run(tmp_path, operand, value, 18, **axes).tolist() == [[1.5, 5.5, 9.5]]
    assert _error(tmp_path, attribute, [1, 3, 2, 2], 18).code is Code.GRAPH_INVALID
    assert _error(tmp_path, operand, [1, 3, 2, 2], 17, **axes).code is Code.GRAPH_INVALID


def test_reduce_mean_without_axes_takes_all_or_where_told_none(tmp_path: Path) -> None:
    assert _run(tmp_path, [node("ReduceMean", ["x"], ["y"])], ROW, 18).tolist() == [[[[2.5]]]]
    nothing = [node("ReduceMean", ["x"], ["y"], noop_with_empty_axes=1)]
    assert _run(tmp_path, nothing, ROW, 18).tolist() == ROW.tolist()


def test_a_mean_over_the_image_is_a_global_average_pool(tmp_path: Path) -> None:
    model = onnx_files.model([node("ReduceMean", ["x"], ["y"], axes=[3, 2], keepdims=0)], {"x": [1, 3, 4, 5]}, opset=13)
    graph = frontend.simplify(onnx_files.load(tmp_path, model))
    assert [entry.op for entry in graph.nodes] == ["global_average_pool", "reshape"]


def test_a_resize_that_moves_nothing_is_none(tmp_path: Path) -> None:
    nodes = [node("Resize", ["x", "", "", "sizes"], ["a"], mode="linear"), node("Relu", ["a"], ["y"])]
    sizes = np.array([1, 3, 4, 5], np.int64)
    model = onnx_files.model(nodes, {"x": [1, 3, 4, 5]}, weights={"sizes": sizes}, opset=13)
    assert [entry.op for entry in frontend.simplify(onnx_files.load(tmp_path, model)).nodes] == ["relu"]


@pytest.mark.parametrize(
    ("attributes", "pads", "padding"),
    [
        ({"output_shape": [5, 6]}, (0, 0, 0, 0), (0, 0)),
        ({"output_shape": [4, 9]}, (1, 0, 0, 0), (0, 3)),
        ({"output_shape": [4, 9], "auto_pad": "SAME_UPPER"}, (0, -2, 1, -1), (0, 0)),
        ({"auto_pad": "SAME_UPPER", "strides": [4, 5]}, (-1, -2, 0, -1), (0, 0)),
        ({"auto_pad": "SAME_LOWER", "strides": [4, 5]}, (0, -1, -1, -2), (0, 0)),
        ({"auto_pad": "SAME_UPPER"}, (0, 0, 1, 0), (0, 0)),
        ({"auto_pad": "SAME_LOWER"}, (1, 0, 0, 0), (0, 0)),
        ({"auto_pad": "VALID", "pads": [1, 1, 1, 1]}, (0, 0, 0, 0), (0, 0)),
        ({"pads": [0, 1, 1, 1], "output_padding": [1, 0]}, (0, 1, 1, 1), (1, 0)),
    ],
)
def test_the_size_asked_of_a_transposed_convolution_becomes_pads(
    tmp_path: Path, attributes: dict[str, Any], pads: tuple[int, ...], padding: tuple[int, ...]
) -> None:
    # 2 x 3 by strides 2 x 2 with 3 x 2 taps: 5 x 6 without pads
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], **{"strides": [2, 2]} | attributes)]
    model = onnx_files.model(nodes, {"x": [1, 1, 2, 3]}, weights={"w": np.zeros((1, 1, 3, 2), np.float32)})
    (entry,) = onnx_files.load(tmp_path, model).nodes
    assert (entry.attr("pads"), entry.attr("output_padding")) == (pads, padding)


def test_batch_norm_after_a_transposed_convolution_and_a_bias_is_in_its_weights(tmp_path: Path) -> None:
    draw = np.random.Generator(np.random.PCG64(3))
    weights = {name: draw.standard_normal(4).astype(np.float32) for name in ("scale", "shift", "mean")}
    weights |= {"var": np.array([1, 4, 0.25, 9], np.float32), "bias": draw.standard_normal((1, 4, 1, 1), np.float32)}
    weights["w"] = draw.standard_normal((6, 2, 2, 2), np.float32)
    nodes = [
        node("ConvTranspose", ["x", "w"], ["a"], strides=[2, 2], group=2),
        node("Add", ["a", "bias"], ["b"]),
        node("BatchNormalization", ["b", "scale", "shift", "mean", "var"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    value = draw.standard_normal((1, 6, 3, 4)).astype(np.float32)
    graph = onnx_files.load(tmp_path, onnx_files.model(nodes, {"x": value.shape}, weights=weights))
    simple = frontend.simplify(graph)
    assert [entry.op for entry in simple.nodes] == ["conv_transpose", "relu"]
    before, after = evaluate(graph, {"x": value})["y"], evaluate(simple, {"x": value})["y"]
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_phases_of_a_transposed_convolution_are_plain_convolutions() -> None:
    # stride 2, 3 taps, a pad of 1: even outputs meet tap 1 alone, odd ones taps 2 and 0, one input further on
    assert phases(7, 2, 3, 1, 1) == (Phase(0, 4, 1, 0, 1, 1, 1), Phase(1, 3, 2, 0, 1, 2, 2))
    assert [phase.reach(4) for phase in phases(7, 2, 3, 1, 1)] == [(0, 0), (0, 0)]
    assert [phase.pairs(4) for phase in phases(8, 2, 3, 1, 1)] == [4, 7]
    # stride 3, 2 taps: every third output meets nothing
    assert [phase.taps for phase in phases(9, 3, 2, 1, 0)] == [1, 1, 0]


def test_an_output_block_of_a_concat_is_made_of_pieces() -> None:
    assert pieces([24, 24], 16, 1) == (Piece(0, 8, 0, 0, 0), Piece(8, 8, 1, -1, 0))
    assert pieces([24, 24], 16, 2) == (Piece(0, 8, 1, -2, 8), Piece(8, 8, 1, -1, 0))
    assert pieces([3, 2], 8, 0) == (Piece(0, 3, 0, 0, 0), Piece(3, 2, 1, 0, 0))
