"""Graphs that break ONNX's rules, or that the compiler does not take: each with its code, none with a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from kernelc import media
from kernelc.frontend.importer import MAX_NAME, MAX_PORTS
from kernelfarm.errors import Code, FarmError
from tests.support import onnx_files
from tests.support.onnx_files import node
from toolchains import runtime_build

RELU = node("Relu", ["x"], ["y"])


def _error(folder: Path, model: onnx.ModelProto) -> FarmError:
    with pytest.raises(FarmError) as caught:
        onnx_files.load(folder, model)
    return caught.value


def _of(*nodes: Any, **options: Any) -> onnx.ModelProto:
    return onnx_files.model(nodes, {"x": [1, 4, 8, 8]}, **options)


def test_an_unknown_operator_is_named_with_node_opset_and_the_nearest_supported(tmp_path: Path) -> None:
    error = _error(tmp_path, _of(node("Relu", ["x"], ["a"]), node("HardSwisch", ["a"], ["y"], name="act")))
    assert error.code is Code.OPERATOR_UNKNOWN
    assert error.detail == {
        "node": 1,
        "name": "act",
        "operator": "HardSwisch",
        "domain": "",
        "opset": 17,
        "nearest": "HardSwish",
    }
    assert 'node 1 "act" (HardSwisch, opset 17)' in str(error)


def test_an_operator_of_another_domain_is_unknown_even_with_a_known_name(tmp_path: Path) -> None:
    error = _error(tmp_path, _of(node("Relu", ["x"], ["y"], domain="com.example")))
    assert (error.code, error.detail["domain"]) == (Code.OPERATOR_UNKNOWN, "com.example")


def test_an_operator_that_came_later_says_since_when(tmp_path: Path) -> None:
    error = _error(tmp_path, _of(node("HardSwish", ["x"], ["y"]), opset=13))
    assert error.code is Code.OPERATOR_UNKNOWN
    assert error.why == "it came with operator set 14; the model declares 13"


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])], "its own result"),
        ([node("Add", ["x", "y"], ["y"])], "its own result"),
        ([node("Relu", ["x"], ["y"]), node("Sigmoid", ["x"], ["y"])], "two nodes or inputs make"),
        ([node("Relu", ["x"], ["x"]), node("Relu", ["x"], ["y"])], "two nodes or inputs make"),
        ([node("Relu", ["nowhere"], ["y"])], "which nothing makes"),
        ([node("Relu", ["x"], ["z"])], "computed by no node"),
        ([node("Relu", ["x"], [])], "it has no output"),
        ([node("Relu", ["x"], ["a"]), node("Add", ["x"], ["y"])], "it lacks an input"),
        ([node("Relu", ["x", "x"], ["y"])], "takes 1 at most"),
        ([node("Relu", ["x"], ["y"], alpha=1.0)], "is not an attribute"),
        ([node("HardSigmoid", ["x"], ["y"], alpha=1)], "must be FLOAT"),
        ([node("MaxPool", ["x"], ["y"])], "attribute kernel_shape is missing"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2, 2])], "kernel_shape has 3 numbers"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[0, 1])], "not positive"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[2, 0, 0, 0])], "a pad of 2"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[9, 1])], "does not fit"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SOME")], "auto_pad"),
        ([node("Softmax", ["x"], ["y"], axis=4)], "outside rank 4"),
        ([node("Transpose", ["x"], ["y"], perm=[0, 0, 1, 2])], "not a permutation"),
        ([node("Concat", ["x", "x"], ["y"])], "attribute axis is missing"),
        ([node("Gather", ["x", "x"], ["y"])], "indices are f32"),
        ([node("MatMul", ["x", "x"], ["a"]), node("Gemm", ["a", "a"], ["y"])], "must be matrices"),
    ],
)
def test_a_graph_that_breaks_a_rule_is_invalid(tmp_path: Path, nodes: list[Any], why: str) -> None:
    error = _error(tmp_path, _of(*nodes))
    assert error.code is Code.GRAPH_INVALID
    assert why in error.why


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("Dropout", ["x"], ["a", "mask"]), node("Cast", ["mask"], ["y"], to=1)], "output 1 of node 0"),
        ([node("MaxPool", ["x"], ["a", "y"], kernel_shape=[2, 2])], "output 1 of node 0"),
        ([node("Conv", ["x", "w"], ["y"], pads=[-1, 0, 0, 0])], "a pad is negative"),
        ([node("Flatten", ["x"], ["a"]), node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2])], "rank 2"),
        ([node("Unsqueeze", ["x", "axes"], ["y"])], "constant list"),
        ([node("Constant", [], ["y"], value_string="text")], "value_string"),
        ([node("BatchNormalization", ["x", *"wwww"], ["y"], training_mode=1)], "training_mode"),
        ([node("Pow", ["x", "x"], ["y"])], "constant 0.5, 1, 2 or 3"),
        ([node("Pow", ["x", "odd"], ["y"])], "constant 0.5, 1, 2 or 3"),
        ([node("Pow", ["x", "deep"], ["y"])], "adds dimensions"),
        ([node("LayerNormalization", ["x", "odd"], ["y"], axis=1)], "more than the last dimension"),
        ([node("LayerNormalization", ["x", "odd"], ["y"], stash_type=11)], "stash_type"),
        ([node("LayerNormalization", ["x", "odd"], ["a", "y"])], "output 1 of node 0"),
    ],
)
def test_a_legal_form_that_is_not_taken_is_called_unsupported(tmp_path: Path, nodes: list[Any], why: str) -> None:
    odd = {"odd": np.float32(1.5), "deep": np.full((1, 1, 1, 1, 1), 2, np.float32)}
    model = _of(*nodes, weights={"w": np.ones((4, 4, 1, 1), np.float32)} | odd)
    model.graph.input.append(helper.make_tensor_value_info("axes", onnx.TensorProto.INT64, [1]))
    error = _error(tmp_path, model)
    assert error.code is Code.OPERATOR_FORM_UNSUPPORTED
    assert why in error.why


def test_a_shape_that_depends_on_data_cannot_be_inferred(tmp_path: Path) -> None:
    model = _of(node("Reshape", ["x", "target"], ["y"]))
    model.graph.input.append(helper.make_tensor_value_info("target", onnx.TensorProto.INT64, [2]))
    assert _error(tmp_path, model).code is Code.SHAPE_NOT_INFERRED


@pytest.mark.parametrize("kind", ["BFLOAT16", "STRING", "COMPLEX64", "INT4", "FLOAT8E4M3FN", "UNDEFINED"])
def test_an_element_type_that_is_not_taken_is_named(tmp_path: Path, kind: str) -> None:
    model = _of(RELU)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(kind)
    error = _error(tmp_path, model)
    assert error.code is Code.DTYPE_UNSUPPORTED
    assert kind in error.what


def _weight(**fields: Any) -> onnx.ModelProto:
    model = _of(node("Add", ["x", "w"], ["y"]))
    model.graph.initializer.append(onnx.TensorProto(name="w", **fields))
    return model


FLOAT, INT8, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT8, onnx.TensorProto.BOOL


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (_weight(data_type=FLOAT, dims=[2**40, 2**40], raw_data=b"1234"), Code.MODEL_TOO_LARGE),
        (_weight(data_type=FLOAT, dims=[2**62] * 4), Code.MODEL_TOO_LARGE),
        (_weight(data_type=FLOAT, dims=[2**28, 2], float_data=[1.0]), Code.MODEL_TOO_LARGE),
        (_weight(data_type=FLOAT, dims=[-1], raw_data=b""), Code.TENSOR_INVALID),
        (_weight(data_type=FLOAT, dims=[1] * 9, raw_data=b"1234"), Code.TENSOR_INVALID),
        (_weight(data_type=FLOAT, dims=[2], raw_data=b"1234"), Code.TENSOR_INVALID),
        (_weight(data_type=FLOAT, dims=[1], raw_data=b"12345678"), Code.TENSOR_INVALID),
        (_weight(data_type=FLOAT, dims=[3], float_data=[1.0, 2.0]), Code.TENSOR_INVALID),
        (_weight(data_type=FLOAT, dims=[1], int32_data=[1]), Code.TENSOR_INVALID),
        (_weight(data_type=INT8, dims=[1], int32_data=[300]), Code.TENSOR_INVALID),
        (_weight(data_type=BOOL, dims=[1], int32_data=[2]), Code.TENSOR_INVALID),
        (_weight(data_type=onnx.TensorProto.STRING, dims=[1], string_data=[b"a"]), Code.DTYPE_UNSUPPORTED),
        (_weight(data_type=99, dims=[1], raw_data=b"1"), Code.DTYPE_UNSUPPORTED),
    ],
)
def test_a_faulty_weight_is_refused_before_memory_is_taken(tmp_path: Path, model: onnx.ModelProto, code: Code) -> None:
    assert _error(tmp_path, model).code is code


def test_an_input_must_be_a_tensor_of_known_rank_with_a_printable_name_of_its_own(tmp_path: Path) -> None:
    codes = []
    for change in (
        lambda info: info.type.Clear(),
        lambda info: info.type.tensor_type.ClearField("shape"),
        lambda info: setattr(info, "name", "x\x1b[31m"),
        lambda info: setattr(info, "name", "ü" * 64),  # 128 bytes: the device's structs hold 127
        lambda info: info.type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=1)] * 5),
        lambda info: info.type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=2**30)]),
    ):
        model = _of(RELU)
        change(model.graph.input[0])
        codes.append(_error(tmp_path, model).code)
    invalid = Code.GRAPH_INVALID
    assert codes == [Code.DTYPE_UNSUPPORTED, invalid, invalid, invalid, invalid, Code.MODEL_TOO_LARGE]
    model = _of(RELU)
    model.graph.input.append(model.graph.input[0])
    assert _error(tmp_path, model).code is invalid


def test_a_model_has_as_many_inputs_and_outputs_as_the_device_takes(tmp_path: Path) -> None:
    header = (runtime_build.source_root() / "include" / "kf_abi.h").read_text(encoding="utf-8")
    assert f"#define KF_MAX_TENSORS {MAX_PORTS}u" in header
    inputs = {f"x{number}": [1, 4] for number in range(MAX_PORTS)}
    model = onnx_files.model([node("Relu", ["x0"], ["y"])], inputs)
    assert _error(tmp_path, model).code is Code.MODEL_TOO_LARGE
    model.graph.input.pop()
    assert len(onnx_files.load(tmp_path, model).inputs) == MAX_PORTS - 1


def test_the_longest_name_is_told_whole_by_the_device(tmp_path: Path) -> None:
    header = (runtime_build.source_root() / "include" / "media_engine.h").read_text(encoding="utf-8")
    assert f"char name[{MAX_NAME + 1}];" in header
    model = onnx_files.model([node("Relu", ["x" * MAX_NAME], ["y"])], {"x" * MAX_NAME: [1, 4]})
    assert onnx_files.load(tmp_path, model).inputs[0].name == "x" * MAX_NAME


def test_terminal_codes_in_a_name_reach_no_message(tmp_path: Path) -> None:
    error = _error(tmp_path, _of(node("Boom", ["x"], ["y"], name="\x1b[2Jé\n" + "n" * 500)))
    assert str(error).isascii() and str(error).isprintable()
    assert len(str(error)) < 800


def test_nodes_may_stand_in_any_order_and_defaults_of_inputs_are_constants(tmp_path: Path) -> None:
    weights = {"w": np.full((1, 4, 1, 1), 2, np.float32)}
    model = onnx_files.model(
        [node("Relu", ["a"], ["y"]), node("Mul", ["x", "w"], ["a"])],
        {"x": [1, 4, 8, 8], "w": [1, 4, 1, 1]},
        weights=weights,
    )
    graph = onnx_files.load(tmp_path, model)
    assert [entry.op for entry in graph.nodes] == ["mul", "relu"]
    assert [port.name for port in graph.inputs] == ["x"]
    np.testing.assert_array_equal(graph.weights["w0"].array, weights["w"])


def test_no_text_of_the_model_but_its_input_and_output_names_goes_on(tmp_path: Path) -> None:
    secret = "secret-text-of-the-author"
    model = onnx_files.model(
        [
            node("Mul", ["x", secret], [secret + "1"], name=secret, doc_string=secret),
            node("Relu", [secret + "1"], ["y"]),
        ],
        {"x": ["batch-" + secret, 4]},
        weights={secret: np.ones((1, 4), np.float32)},
    )
    model.producer_name = model.doc_string = model.graph.name = model.graph.doc_string = secret
    model.metadata_props.add(key=secret, value=secret)
    graph = onnx_files.load(tmp_path, model, allow_symbolic=True)
    assert secret not in repr(graph) + media.to_text(graph)
    assert [port.name for port in (*graph.inputs, *graph.outputs)] == ["x", "y"]
    assert [entry.name for entry in graph.nodes] == ["n0_mul", "n1_relu"]
