"""The reference runtime in its child, the inputs it gets, and ONNX's test folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from farm import cases, reference
from farm.cases import TensorSpec
from kernelfarm.errors import Code, FarmError
from tests.support import graphs


def test_onnxruntime_answers_each_case_in_a_child(tmp_path: Path):
    model = graphs.relu(tmp_path / "relu.onnx", channels=1, side=2)
    first = np.array([[[[-1, 2], [-3, 4]]]], np.float32)

    answers = reference.run(model, ["x"], ["y"], [{"x": first}, {"x": -first}], _work(tmp_path))

    assert [answer["y"].tolist() for answer in answers] == [[[[[0, 2], [0, 4]]]], [[[[1, 0], [3, 0]]]]]


def test_a_file_that_is_no_model_is_a_coded_error_with_the_runtimes_reason(tmp_path: Path):
    model = tmp_path / "no.onnx"
    model.write_bytes(b"not a model")

    with pytest.raises(FarmError) as raised:
        reference.run(model, ["x"], ["y"], [{"x": np.zeros((1,), np.float32)}], _work(tmp_path))

    assert raised.value.code is Code.REFERENCE_FAILED
    assert "INVALID_PROTOBUF" in raised.value.why


def test_seeded_inputs_are_these_very_numbers():
    (case,) = cases.seeded([TensorSpec("x", (2, 2))], seed=7, count=1)

    assert case["x"].dtype == np.float32
    assert case["x"].tolist() == SEED_7


def test_seeded_inputs_differ_by_seed_case_and_input():
    specs = [TensorSpec("a", (4,)), TensorSpec("b", (4,))]

    values = [
        case[name].tolist()
        for seed in (0, 1)
        for case in cases.seeded(specs, seed=seed, count=2)
        for name in ("a", "b")
    ]

    assert len({tuple(value) for value in values}) == 8


def test_a_user_file_must_fit_its_input(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))

    fed = cases.from_files([TensorSpec("x", (1, 3))], {"x": tmp_path / "x.npy"})
    assert fed["x"].shape == (1, 3)

    for specs, files, text in [
        ([TensorSpec("x", (1, 4))], {"x": tmp_path / "x.npy"}, "float32 [1, 3] instead of float32 [1, 4]"),
        ([TensorSpec("x", (1, 3))], {"z": tmp_path / "x.npy"}, "no file is given for it"),
        ([], {"z": tmp_path / "x.npy"}, "the model has no such input"),
    ]:
        with pytest.raises(FarmError) as raised:
            cases.from_files(specs, files)
        assert (raised.value.code, raised.value.why) == (Code.CASE_INVALID, text)


def test_a_pickle_is_never_loaded(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.array([print], object), allow_pickle=True)

    with pytest.raises(FarmError) as raised:
        cases.from_files([TensorSpec("x", (1,))], {"x": tmp_path / "x.npy"})

    assert raised.value.code is Code.CASE_INVALID


def test_a_folder_in_onnx_test_layout_is_read_in_the_order_of_its_numbers(tmp_path: Path):
    folder = _test_folder(tmp_path / "case", sets=11)

    found = reference.test_folder(folder)
    tensors = reference.read_tensors([inputs[0] for inputs, _ in found.sets], _work(tmp_path))

    assert found.model == folder / "model.onnx"
    assert [tensor.tolist() for tensor in tensors] == [[float(number)] for number in range(11)]


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("model.onnx", "it holds no model.onnx"),
        ("test_data_set_0", "it holds no test_data_set_0"),
        ("test_data_set_0/output_0.pb", "it holds no output_0.pb to compare with"),
    ],
)
def test_a_folder_that_lacks_something_says_what(tmp_path: Path, missing: str, why: str):
    folder = _test_folder(tmp_path / "case", sets=1)
    path = folder / missing
    path.rename(tmp_path / "away")

    with pytest.raises(FarmError) as raised:
        reference.test_folder(folder)

    assert (raised.value.code, raised.value.why) == (Code.CASE_INVALID, why)


def _work(folder: Path) -> Path:
    work = folder / "work"
    work.mkdir()
    return work


def _test_folder(folder: Path, *, sets: int) -> Path:
    folder.mkdir()
    graphs.relu(folder / "model.onnx")
    for number in range(sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for name in ("input_0.pb", "output_0.pb"):
            tensor: onnx.TensorProto = numpy_helper.from_array(np.array([number], np.float32), "t")
            (data / name).write_bytes(tensor.SerializeToString())
    return folder


SEED_7 = [[0.8898098468780518, 0.2501908540725708], [0.3683598041534424, 0.7944275140762329]]
