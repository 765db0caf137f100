"""Files that are no model, or only the beginning of one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelc import frontend
from kernelc.frontend import read
from kernelfarm.errors import Code, FarmError, Status
from tests.support import onnx_files
from tests.support.onnx_files import node

WHOLE = onnx_files.model([node("Relu", ["x"], ["y"])], {"x": [1, 4]}).SerializeToString()
BODY = onnx_files.model(
    [node("Mul", ["x", "w"], ["y"])], {"x": [1, 64]}, weights={"w": [[0.5] * 64]}
).SerializeToString()


def _code(path: Path) -> Code:
    with pytest.raises(FarmError) as caught:
        frontend.load(path, {})
    assert caught.value.code.status in (Status.BAD, Status.ENVIRONMENT)
    return caught.value.code


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, I am a text file\n",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 64,
        b"\x7fELF" + b"\0" * 64,
        b"PK\x03\x04" + b"\0" * 64,
        b"\xff" * 100,
        b"\0" * 100,
        b"TFL3" + b"\x20\0\0\0" * 30,
    ],
    ids=["empty", "text", "png", "elf", "zip", "ones", "zeros", "tflite"],
)
def test_a_file_of_another_kind_is_not_a_model(tmp_path: Path, data: bytes) -> None:
    assert _code(onnx_files.save(tmp_path, data)) is Code.MODEL_INVALID


@pytest.mark.parametrize("part", range(1, 8))
def test_a_model_cut_inside_its_graph_is_truncated(tmp_path: Path, part: int) -> None:
    cut = BODY[: 20 + (len(BODY) - 40) * part // 8]
    assert _code(onnx_files.save(tmp_path, cut)) is Code.MODEL_TRUNCATED


def test_every_shorter_file_ends_in_one_of_the_two_codes(tmp_path: Path) -> None:
    codes = {_code(onnx_files.save(tmp_path, WHOLE[:size])) for size in range(len(WHOLE))}
    assert codes == {Code.MODEL_INVALID, Code.MODEL_TRUNCATED}


def test_a_missing_file_is_the_environments_fault(tmp_path: Path) -> None:
    assert _code(tmp_path / "none.onnx") is Code.FILE_MISSING


def test_a_folder_and_a_pipe_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _code(tmp_path) is Code.MODEL_NOT_A_FILE
    assert _code(tmp_path / "pipe") is Code.MODEL_NOT_A_FILE


def test_a_model_without_a_graph_an_output_or_an_operator_set_is_invalid(tmp_path: Path) -> None:
    for field in ("graph", "opset_import"):
        model = onnx_files.model([node("Relu", ["x"], ["y"])], {"x": [1, 4]})
        model.ClearField(field)
        assert _code(onnx_files.save(tmp_path, model)) is Code.MODEL_INVALID
    model = onnx_files.model([node("Relu", ["x"], ["y"])], {"x": [1, 4]})
    del model.graph.output[:]
    assert _code(onnx_files.save(tmp_path, model)) is Code.MODEL_INVALID


def test_a_name_that_is_not_utf_8_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    for name in (b"Relu", b"\x01x\x12", b"graph"):
        damaged = WHOLE.replace(name, b"\x01\xff\x12" if name[0] == 1 else b"\xff" + name[1:])
        assert damaged != WHOLE
        assert _code(onnx_files.save(tmp_path, damaged)) is Code.MODEL_INVALID


@pytest.mark.parametrize("opset", [1, 6, read.NEWEST_OPSET + 1, 2**40])
def test_an_operator_set_outside_the_known_range_is_refused_with_the_range(tmp_path: Path, opset: int) -> None:
    model = onnx_files.model([node("Relu", ["x"], ["y"])], {"x": [1, 4]}, opset=opset)
    with pytest.raises(FarmError) as caught:
        onnx_files.load(tmp_path, model)
    assert caught.value.code is Code.OPSET_UNSUPPORTED
    assert caught.value.detail == {"opset": opset, "oldest": 7, "newest": 28}


def test_a_file_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    path.touch()
    os.truncate(path, read.MAX_MODEL_BYTES + 1)  # sparse: takes no room
    assert _code(path) is Code.MODEL_TOO_LARGE


def test_too_many_nodes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_NODES", 2)
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]
    assert _code(onnx_files.save(tmp_path, onnx_files.model(nodes, {"x": [1]}))) is Code.MODEL_TOO_LARGE
