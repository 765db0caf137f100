"""Where onnxruntime answers otherwise: ONNX's reference decides, and docs/reference/onnxruntime.md lists it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from kernelc.numerics import reference
from tests.support import onnx_files
from tests.support.onnx_files import node

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "onnxruntime.md"
Array = np.ndarray[Any, np.dtype[np.float32]]


def resize(mode: str = "linear", *, size: tuple[int, int] = (8, 9), opset: int = 13, **given: Any) -> onnx.ModelProto:
    """A Resize of [1,1,H,W]; `roi`, `scales` and `sizes` are operands, everything else is an attribute."""
    operands = {"roi": np.float32, "scales": np.float32, "sizes": np.int64}
    weights = {name: np.array(given.pop(name), kind) for name, kind in operands.items() if name in given}
    names = [name if name in weights else "" for name in operands]
    made = node("Resize", ["x", *names], ["y"], mode=mode, **given)
    return onnx_files.model([made], {"x": (1, 1, *size)}, weights=weights, opset=opset)


def transposed(kernel: int, mode: str, **given: Any) -> onnx.ModelProto:
    """A ConvTranspose of stride 3 with a bias, whose kernel is shorter than the stride."""
    made = node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[3, 3], auto_pad=mode, **given)
    weights = {"w": np.arange(1, kernel**2 + 1, dtype=np.float32).reshape(1, 1, kernel, kernel), "b": np.float32([0.5])}
    return onnx_files.model([made], {"x": (1, 1, 3, 4)}, weights=weights)


CROP = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
OTHERWISE = {
    "align-corners": resize(coordinate_transformation_mode="align_corners", scales=[1, 1, 1.7, 1.7]),
    "pytorch-half-pixel": resize(coordinate_transformation_mode="pytorch_half_pixel", scales=[1, 1, 0.2, 0.2]),
    "crop-of-an-axis-of-scale-1": resize(**CROP, roi=[0, 0, 0.25, 0, 1, 1, 0.75, 1], scales=[1, 1, 1, 2]),
    "crop-to-the-end": resize(**CROP, size=(4, 4), roi=[0, 0, 0, 0.2, 1, 1, 1, 1], sizes=[1, 1, 4, 2]),
    "same-upper": transposed(2, "SAME_UPPER"),
    "same-lower": transposed(2, "SAME_LOWER"),
    "same-upper-of-one": transposed(1, "SAME_UPPER"),
}


def ours(content: onnx.ModelProto, x: Array, folder: Path) -> Array:
    graph = onnx_files.load(folder, content)
    return np.asarray(reference.evaluate(graph, {"x": x})["y"])


def onnx_says(content: onnx.ModelProto, x: Array) -> Array:
    return np.asarray(ReferenceEvaluator(content).run(None, {"x": x})[0])


def onnxruntime_says(content: onnx.ModelProto, x: Array) -> Array:
    session = onnxruntime.InferenceSession(content.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def values(content: onnx.ModelProto) -> Array:
    shape = [size.dim_value for size in content.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


def same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", OTHERWISE)
def test_onnx_decides_where_onnxruntime_answers_otherwise(name: str, tmp_path: Path) -> None:
    content = OTHERWISE[name]
    x = values(content)

    assert same(ours(content, x, tmp_path), onnx_says(content, x))
    assert not same(onnx_says(content, x), onnxruntime_says(content, x))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_an_output_shape_that_asks_for_more_leaves_both_sides_as_onnx_does(mode: str, tmp_path: Path) -> None:
    content = transposed(4, mode, output_shape=[15, 16])
    x = values(content)

    assert same(ours(content, x, tmp_path), onnx_says(content, x))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_negative_axes_keep_the_aspect_ratio_as_the_same_positive_ones(policy: str, tmp_path: Path) -> None:
    negative, positive = (
        resize(keep_aspect_ratio_policy=policy, axes=axes, sizes=[11, 16], size=(6, 8), opset=18)
        for axes in ([-2, -1], [2, 3])
    )
    x = values(positive)

    assert same(ours(negative, x, tmp_path), onnx_says(positive, x))
    assert not same(onnx_says(positive, x), onnxruntime_says(negative, x))


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("rounding", ["round_prefer_ceil", "floor"])
def test_an_axis_of_scale_1_is_copied_also_where_its_places_lie_half_an_element_off(
    mode: str, rounding: str, tmp_path: Path
) -> None:
    content = resize(
        mode,
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        roi=[],
        scales=[1, 1, 1, 1],
        nearest_mode=rounding,
        opset=11,
    )
    x = values(content)

    assert np.array_equal(ours(content, x, tmp_path), x)
    assert np.array_equal(onnx_says(content, x), x)
    assert np.array_equal(onnxruntime_says(content, x), x)


def test_the_page_has_a_row_for_every_corner() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(("| Resize", "| Conv"))]

    corners = {"align", "pytorch", "crop-of", "crop-to", "same"}
    assert len(rows) == len(corners) + 1  # the policy has a test of its own
    assert all(any(name.startswith(corner) for name in OTHERWISE) for corner in corners)
