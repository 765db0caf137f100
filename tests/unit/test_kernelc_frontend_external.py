"""External data: read from plain files inside the model's folder, and from nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from kernelc import frontend
from kernelc.graph import Graph
from kernelfarm.errors import Code, FarmError
from tests.support import onnx_files
from tests.support.onnx_files import node

VALUES = np.arange(6, dtype=np.float32).reshape(1, 6)


def _model(folder: Path, **keys: str) -> Path:
    """x + w with w external, by the given keys of its external data."""
    model = onnx_files.model([node("Add", ["x", "w"], ["y"])], {"x": [1, 6]}, weights={"w": VALUES})
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in keys.items():
        weight.external_data.add(key=key, value=value)
    folder.mkdir(exist_ok=True)
    return onnx_files.save(folder, model)


def _error(path: Path) -> FarmError:
    with pytest.raises(FarmError) as caught:
        frontend.load(path, {})
    return caught.value


def _weight(graph: Graph) -> np.ndarray:
    return graph.weights["w0"].array


def test_bytes_are_read_at_their_offset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"\xff" * 8 + VALUES.tobytes() + b"\xff" * 8)
    path = _model(tmp_path, location="data/w.bin", offset="8", length="24")
    np.testing.assert_array_equal(_weight(frontend.load(path, {})), VALUES)


def test_a_link_that_stays_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    (tmp_path / "link").symlink_to("w.bin")
    np.testing.assert_array_equal(_weight(frontend.load(_model(tmp_path, location="link"), {})), VALUES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    error = _error(_model(tmp_path, location="none.bin"))
    assert error.code is Code.EXTERNAL_MISSING
    assert error.detail == {"location": "none.bin"}


@pytest.mark.parametrize(
    "location",
    ["../w.bin", "a/../../w.bin", "/w.bin", "C:\\w.bin", "C:w.bin", "\\\\host\\w.bin", "..\\w.bin", "", "w\0.bin"],
)
def test_a_location_that_could_lead_outside_is_refused_even_where_a_file_lies(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    assert _error(_model(tmp_path / "inside", location=location)).code is Code.EXTERNAL_OUTSIDE


def test_an_absolute_location_of_a_real_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    assert _error(_model(tmp_path, location=str(tmp_path / "w.bin"))).code is Code.EXTERNAL_OUTSIDE


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "file").symlink_to(tmp_path / "w.bin")
    (inside / "folder").symlink_to(tmp_path)
    assert _error(_model(inside, location="file")).code is Code.EXTERNAL_OUTSIDE
    assert _error(_model(inside, location="folder/w.bin")).code is Code.EXTERNAL_OUTSIDE


def test_a_folder_a_pipe_and_a_loop_of_links_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    assert _error(_model(tmp_path, location="pipe")).code is Code.EXTERNAL_OUTSIDE
    assert _error(_model(tmp_path, location="folder")).code is Code.EXTERNAL_OUTSIDE
    assert _error(_model(tmp_path, location="loop")).code is Code.EXTERNAL_MISSING


@pytest.mark.parametrize(
    "keys",
    [
        {"offset": "8"},
        {"length": "23"},
        {"length": "25"},
        {"offset": "-1"},
        {"offset": "1e3"},
        {"offset": "9" * 30},
        {"length": "x"},
        {"offset": "24", "length": "0"},
    ],
    ids=str,
)
def test_a_range_that_is_not_the_tensors_is_refused(tmp_path: Path, keys: dict[str, str]) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    assert _error(_model(tmp_path, location="w.bin", **keys)).code is Code.TENSOR_INVALID
