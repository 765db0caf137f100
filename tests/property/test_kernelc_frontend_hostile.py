"""Damaged model files end in a coded error or a graph, never in a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from kernelc import frontend
from kernelc.frontend import operators
from kernelfarm.errors import FarmError
from tests.support import graphs, onnx_files
from tests.support.onnx_files import node

PLAIN = onnx_files.model(
    [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], auto_pad="NOTSET"),
        node("Clip", ["a", "lo", ""], ["b"]),
        node("Slice", ["b", "s", "e", "s"], ["c"]),
        node("Reshape", ["c", "t"], ["y"]),
    ],
    {"x": [1, 2, 3, "w"]},
    weights={
        "w": np.ones((2, 2, 1, 1), np.float32),
        "lo": np.float32(0),
        "s": np.array([1]),
        "e": np.array([2]),
        "t": np.array([-1]),
    },
).SerializeToString()
NUMBERS = st.sampled_from([-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 2**31, 2**40, 2**63 - 1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole model, tiny.onnx."""
    path = tmp_path_factory.mktemp("hostile")
    graphs.tiny(path / "tiny.onnx")
    return path


def _survives(folder: Path, data: bytes) -> None:
    path = onnx_files.save(folder, data, "damaged.onnx")
    try:
        frontend.simplify(frontend.load(path, {}, allow_symbolic=True))
    except FarmError as error:
        assert error.code.number.startswith("FARM-E02")


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.data())
def test_flipped_and_cut_bytes(folder: Path, plain: bool, data: st.DataObject) -> None:
    damaged = bytearray(PLAIN if plain else (folder / "tiny.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    _survives(folder, bytes(damaged[:size]))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
@example(b"\x3a\x00")
@example(b"\x3a\x02\x0a\x00\x42\x02\x10\x0d")
def test_arbitrary_bytes(folder: Path, data: bytes) -> None:
    _survives(folder, data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_changed_fields_of_a_decoded_model(folder: Path, data: st.DataObject) -> None:
    model = onnx.ModelProto.FromString(PLAIN)
    for _ in range(data.draw(st.integers(1, 3))):
        _change(data, model)
    _survives(folder, model.SerializeToString())


def _change(data: st.DataObject, model: Any) -> None:
    graph = model.graph
    proto = data.draw(st.sampled_from(range(len(graph.node))))
    entry, weight = graph.node[proto], graph.initializer[data.draw(st.sampled_from(range(len(graph.initializer))))]
    names = ["", "x", "w", "a", "b", "c", "y", "s", "nowhere"]
    kind = data.draw(st.sampled_from(["operator", "input", "output", "attribute", "dims", "type", "size", "location"]))
    if kind == "operator":
        entry.op_type = data.draw(st.sampled_from([*operators.supported(), "Boom"]))
    elif kind in ("input", "output"):
        field = getattr(entry, kind)
        field[data.draw(st.integers(0, len(field) - 1))] = data.draw(st.sampled_from(names))
    elif kind == "attribute":
        name = data.draw(st.sampled_from(["axis", "axes", "pads", "strides", "group", "kernel_shape", "perm", "to"]))
        value = data.draw(st.one_of(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4), st.just(1.5), st.just("text")))
        entry.attribute.append(helper.make_attribute(name, value))
    elif kind == "dims":
        weight.dims.append(data.draw(NUMBERS))
    elif kind == "type":
        weight.data_type = data.draw(st.sampled_from([0, 1, 6, 7, 8, 9, 10, 11, 14, 16, 99]))
    elif kind == "size":
        dim = graph.input[0].type.tensor_type.shape.dim[data.draw(st.integers(0, 3))]
        dim.dim_value = data.draw(NUMBERS)
    else:
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=data.draw(st.sampled_from(["../x", "/etc", "damaged.onnx", ""])))
        weight.external_data.add(key="offset", value=str(data.draw(NUMBERS)))
