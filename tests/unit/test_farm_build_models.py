"""Taking models in: what cannot be a model is refused by its own code, external data is found and kept inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm import models
from farm.models import Scrubber, Taken
from kernelc import frontend
from kernelc.frontend.scrub import rules
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, ModelFile, Options
from kernelfarm.store import ContentStore
from tests.support import graphs, onnx_files


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "store")


def scrubber(*ranges: tuple[str, int, int]) -> Scrubber:
    """One that finds these places of external data, and leaves a model of one word."""

    def scrub(folder: Path) -> None:
        (folder / rules.RESULT).write_bytes(b"scrubbed")
        places = [dict(zip(("location", "offset", "length"), item, strict=True)) for item in ranges]
        report = {"schema": "scrub-report/1", "removed": {"names": 1}, "renamed": [], "ranges": places}
        (folder / rules.REPORT).write_bytes(canonical.dumps(report))

    return scrub


def refused(path: Path, store: ContentStore, tmp_path: Path, *names: str) -> FarmError:
    with pytest.raises(FarmError) as caught:
        models.take_in(path, "m", store, scratch=tmp_path, scrubber=scrubber(*((name, 0, 7) for name in names)))
    return caught.value


def external_model(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(b"a model")
    return path


def test_what_is_left_of_a_model_is_in_the_store_afterwards(tmp_path: Path, store: ContentStore) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"a model")
    taken = models.take_in(path, "m", store, scratch=tmp_path, scrubber=scrubber())
    left = Model("m", digest.of_bytes(b"scrubbed"), 8, before=digest.of_bytes(b"a model"))
    assert taken == Taken(left, {"names": 1})
    assert list(store.digests()) == [taken.model.digest]


def test_the_bytes_of_external_data_in_use_are_packed(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path / "models")
    (tmp_path / "models/data").mkdir()
    (tmp_path / "models/data/w.bin").write_bytes(b"author: weights and more")
    (tmp_path / "models/b.bin").write_bytes(b"bias")
    places = scrubber(("./data/w.bin", 8, 7), ("b.bin", 1, 2), ("data/w.bin", 16, 0))

    taken = models.take_in(path, "m", store, scratch=tmp_path, scrubber=places)

    (packed,) = taken.model.external
    assert (packed.name, packed.size) == ("weights.data", 128)
    assert store.get_bytes(packed.digest) == b"weights".ljust(64, b"\0") + b"ia".ljust(64, b"\0")


def test_external_data_that_ends_too_early(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path / "models")
    (tmp_path / "models/w.bin").write_bytes(b"weight")
    assert refused(path, store, tmp_path, "w.bin").code is Code.TENSOR_INVALID
    assert list(store.digests()) == []


def test_the_real_scrubber_sees_a_copy_and_leaves_what_the_compiler_takes(tmp_path: Path, store: ContentStore) -> None:
    path = graphs.external(tmp_path / "m.onnx", "secret/w.bin")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/w.bin").write_bytes(b"w" * 1024 + b"made by me")

    taken = models.take_in(path, "m", store, scratch=tmp_path)

    assert taken.model.before == digest.of_file(path)
    assert taken.model.external == (ModelFile("weights.data", digest.of_bytes(b"w" * 1024), 1024),)
    (tmp_path / "out").mkdir()
    store.export(taken.model.digest, tmp_path / "out/model.onnx")
    store.export(taken.model.external[0].digest, tmp_path / "out/weights.data")
    frontend.require_scrubbed(tmp_path / "out/model.onnx")
    assert frontend.load(tmp_path / "out/model.onnx", {}).weights


def test_a_file_that_is_no_model(tmp_path: Path, store: ContentStore) -> None:
    path = external_model(tmp_path)
    with pytest.raises(FarmError) as caught:
        models.take_in(path, "m", store, scratch=tmp_path)
    assert caught.value.code is Code.MODEL_INVALID
    assert list(store.digests()) == []


def test_names_that_held_a_secret_are_told_without_it(tmp_path: Path, store: ContentStore) -> None:
    path = graphs.relu(tmp_path / "m.onnx")
    taken = models.take_in(path, "m", store, scratch=tmp_path, words=["xyz"])
    assert (taken.renamed, taken.options(Options.of({"x": (1, 3)}))) == ((), Options.of({"x": (1, 3)}))

    onnx_files.save(
        tmp_path, onnx_files.model([onnx_files.node("Relu", ["a-xyz"], ["y"])], {"a-xyz": [1, 3]}), "m.onnx"
    )
    taken = models.take_in(path, "m", store, scratch=tmp_path, words=["xyz"])

    assert [item.to_json() for item in taken.renamed] == [
        {"kind": "input", "index": 0, "name": "scrubbed_input_0", "why": "word"}
    ]
    assert taken.options(Options.of({"a-xyz": (1, 3)})) == Options.of({"scrubbed_input_0": (1, 3)})
    assert "xyz" not in str(taken.to_json())


@pytest.mark.parametrize(
    "report", [b"{}", b"[]", b"no JSON", b'{"ranges":[],"removed":{"a":"b"},"renamed":[]}',
               b'{"ranges":[{"length":1,"location":"x","offset":-1}],"removed":{},"renamed":[]}']
)  # fmt: skip
def test_a_report_that_makes_no_sense_is_refused(tmp_path: Path, store: ContentStore, report: bytes) -> None:
    def scrub(folder: Path) -> None:
        (folder / rules.RESULT).write_bytes(b"scrubbed")
        (folder / rules.REPORT).write_bytes(report)

    with pytest.raises(FarmError) as caught:
        models.take_in(external_model(tmp_path), "m", store, scratch=tmp_path, scrubber=scrub)
    assert caught.value.code is Code.CHILD_CRASHED
    assert list(store.digests()) == []


def test_the_digest_before_is_that_of_what_the_child_was_given(tmp_path: Path, store: ContentStore) -> None:
    def scrub(folder: Path) -> None:
        scrubber()(folder)
        (folder / "model.onnx").write_bytes(b"another")

    taken = models.take_in(external_model(tmp_path / "models"), "m", store, scratch=tmp_path, scrubber=scrub)

    assert taken.model.before == digest.of_bytes(b"a model")


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
