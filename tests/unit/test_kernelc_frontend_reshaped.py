"""A model of fixed sizes, built with others: the graph follows where it can; a refusal names what speaks against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from farm.redeclared import redeclared
from kernelc.numerics.reference import evaluate
from kernelfarm.errors import Code, FarmError, Status
from tests.support import onnx_files
from tests.support.onnx_files import node

WEIGHTS = {"w": np.ones((4, 3, 3, 3), np.float32), "head": np.ones((4 * 4 * 4, 2), np.float32)}
CONV = node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2])
POOLED = [CONV, node("GlobalAveragePool", ["a"], ["y"])]
FLAT = [CONV, node("Flatten", ["a"], ["b"]), node("MatMul", ["b", "head"], ["y"])]


def _model(nodes: list[Any]) -> onnx.ModelProto:
    """Declared 2x3x8x8, with the sizes of results that an exporter writes."""
    return onnx.shape_inference.infer_shapes(onnx_files.model(nodes, {"x": [2, 3, 8, 8]}, weights=WEIGHTS))


def _error(folder: Path, nodes: list[Any], shape: tuple[int, ...]) -> FarmError:
    with pytest.raises(FarmError) as caught:
        onnx_files.load(folder, _model(nodes), {"": shape})
    return caught.value


def test_a_graph_without_sizes_of_its_own_follows_the_given_shape(tmp_path: Path) -> None:
    graph = onnx_files.load(tmp_path, _model(POOLED), {"": (1, 3, 20, 12)})
    assert [graph.result(entry).shape for entry in graph.nodes] == [(1, 4, 10, 6), (1, 4, 1, 1)]
    assert evaluate(graph, {"x": np.zeros((1, 3, 20, 12), np.float32)})["y"].shape == (1, 4, 1, 1)


def test_without_a_shape_the_declared_one_holds(tmp_path: Path) -> None:
    assert onnx_files.load(tmp_path, _model(POOLED)).tensors["t0"].shape == (2, 3, 8, 8)


def test_an_operator_that_the_shape_contradicts_is_named(tmp_path: Path) -> None:
    error = _error(tmp_path, FLAT, (1, 3, 16, 16))
    assert (error.code, error.status) == (Code.SHAPE_MISMATCH, Status.USAGE)
    assert 'input "x" is declared 2x3x8x8 and given as 1x3x16x16' in error.why
    assert "node 2" in error.why and "inner sizes differ: x is 1x256, y is 64x2" in error.why
    assert error.detail["operator"] == "MatMul"
    assert "export the model with dynamic sizes" in error.next_step


def test_the_channels_of_an_image_cannot_be_replaced(tmp_path: Path) -> None:
    error = _error(tmp_path, POOLED, (1, 1, 8, 8))
    assert error.code is Code.SHAPE_MISMATCH
    assert "x has 1 channels; w and group ask for 3" in error.why


def test_a_fault_of_the_graph_itself_stays_one(tmp_path: Path) -> None:
    model = onnx_files.model([node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, weights={"w": np.ones((3, 2))})
    with pytest.raises(FarmError) as caught:
        onnx_files.load(tmp_path, model, {"": (1, 4)})
    assert caught.value.code is Code.GRAPH_INVALID


def test_another_runtime_is_given_the_same_model(tmp_path: Path) -> None:
    model = _model(POOLED)
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4, 3, 3, 3]))
    path = onnx_files.save(tmp_path, model)

    content = redeclared(path, {"x": (1, 3, 20, 12)})

    assert content is not None
    graph = onnx.load_from_string(content).graph
    assert [info.name for info in graph.input] == ["x"]
    assert [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == [1, 3, 20, 12]
    assert len(graph.value_info) == 0
    assert not any(dim.HasField("dim_value") for dim in graph.output[0].type.tensor_type.shape.dim)


def test_a_model_that_says_so_already_is_left_alone(tmp_path: Path) -> None:
    path = onnx_files.save(tmp_path, onnx_files.model(POOLED, {"x": ["n", 3, "h", "w"]}, weights=WEIGHTS))
    assert redeclared(path, {"x": (1, 3, 20, 12)}) is None
