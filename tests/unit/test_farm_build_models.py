"""Taking models in: what cannot be a model is refused by its own code, external data is found and kept inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm import models
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, ModelFile
from kernelfarm.store import ContentStore


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "store")


def no_lister(path: Path) -> tuple[str, ...]:
    raise AssertionError(f"{path} must not be asked")


def refused(path: Path, store: ContentStore, tmp_path: Path, *names: str) -> FarmError:
    with pytest.raises(FarmError) as caught:
        models.take_in(path, "m", store, scratch=tmp_path, lister=lambda _copy: names)
    return caught.value


def external_model(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(b"...location...")
    return path


def test_a_model_is_in_the_store_afterwards(tmp_path: Path, store: ContentStore) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"a model")
    taken = models.take_in(path, "m", store, scratch=tmp_path, lister=no_lister)
    assert taken == Model("m", digest.of_bytes(b"a model"), 7)
    assert store.get_bytes(taken.digest) == b"a model"


def test_external_data_is_taken_in_under_its_name(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path / "models")
    (tmp_path / "models/data").mkdir()
    (tmp_path / "models/data/w.bin").write_bytes(b"weights")
    seen: list[Path] = []

    def lister(copy: Path) -> tuple[str, ...]:
        seen.append(copy)
        assert sorted(item.name for item in copy.parent.iterdir()) == ["model.onnx"]
        return ("./data/w.bin", "data/w.bin")

    taken = models.take_in(path, "m", store, scratch=tmp_path, lister=lister)
    assert taken.external == (ModelFile("data/w.bin", digest.of_bytes(b"weights"), 7),)
    assert store.get_bytes(taken.external[0].digest) == b"weights"
    assert not seen[0].exists()


def test_the_real_lister_finds_external_data_of_an_onnx_file(tmp_path: Path, store: ContentStore) -> None:
    import onnx
    from onnx import TensorProto, helper

    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    inner = helper.make_graph([], "inner", [], [], [weight])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    onnx.save_model(helper.make_model(helper.make_graph([node], "g", [], [])), tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(b"1234")
    taken = models.take_in(tmp_path / "m.onnx", "m", store, scratch=tmp_path)
    assert taken.external == (ModelFile("w.bin", digest.of_bytes(b"1234"), 4),)


def test_the_lister_leaves_a_file_that_is_no_model_to_the_compiler(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path)
    assert models.take_in(path, "m", store, scratch=tmp_path).external == ()


def test_a_missing_model(tmp_path: Path, store: ContentStore) -> None:
    error = refused(tmp_path / "absent.onnx", store, tmp_path)
    assert (error.code, error.status) == (Code.MODEL_MISSING, 1)


def test_a_folder(tmp_path: Path, store: ContentStore) -> None:
    assert refused(tmp_path, store, tmp_path).code is Code.MODEL_NOT_A_FILE


def test_a_pipe(tmp_path: Path, store: ContentStore) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe", store, tmp_path).code is Code.MODEL_NOT_A_FILE


def test_an_empty_file(tmp_path: Path, store: ContentStore) -> None:
    (tmp_path / "m.onnx").touch()
    assert refused(tmp_path / "m.onnx", store, tmp_path).code is Code.MODEL_EMPTY


def test_a_file_over_two_gibibytes(tmp_path: Path, store: ContentStore) -> None:
    with (tmp_path / "m.onnx").open("wb") as stream:
        stream.truncate(1 << 31)
    assert refused(tmp_path / "m.onnx", store, tmp_path).code is Code.MODEL_TOO_LARGE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(tmp_path: Path, store: ContentStore) -> None:
    (tmp_path / "m.onnx").write_bytes(b"x")
    (tmp_path / "m.onnx").chmod(0)
    error = refused(tmp_path / "m.onnx", store, tmp_path)
    assert (error.code, error.status) == (Code.PERMISSION, 3)


def test_a_name_that_is_too_long(tmp_path: Path, store: ContentStore) -> None:
    assert refused(tmp_path / ("m" * 300), store, tmp_path).code is Code.PATH_TOO_LONG


def test_missing_external_data_is_named(tmp_path: Path, store: ContentStore) -> None:
    error = refused(external_model(tmp_path / "models"), store, tmp_path, "w.bin")
    assert (error.code, error.detail["location"]) == (Code.EXTERNAL_MISSING, "w.bin")


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "..", ".", "", "a\0b"])
def test_external_data_outside_the_models_folder_is_refused(tmp_path: Path, store: ContentStore, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    error = refused(external_model(tmp_path / "models"), store, tmp_path, location)
    assert error.code is Code.EXTERNAL_OUTSIDE
    assert list(store.digests()) == []


def test_a_link_that_leads_out_is_refused(tmp_path: Path, store: ContentStore) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    path = external_model(tmp_path / "models")
    (tmp_path / "models/w.bin").symlink_to(tmp_path / "secret")
    assert refused(path, store, tmp_path, "w.bin").code is Code.EXTERNAL_OUTSIDE


def test_a_link_in_a_circle_is_missing_data(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path / "models")
    (tmp_path / "models/w.bin").symlink_to("w.bin")
    assert refused(path, store, tmp_path, "w.bin").code is Code.EXTERNAL_MISSING


def test_external_data_that_is_a_pipe_is_refused(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path / "models")
    os.mkfifo(tmp_path / "models/w.bin")
    assert refused(path, store, tmp_path, "w.bin").code is Code.EXTERNAL_OUTSIDE


def test_after_a_refusal_no_scratch_folder_is_left(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path / "models")
    refused(path, store, tmp_path, "w.bin")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["models"]
