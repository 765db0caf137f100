"""What a compile child leaves is believed only when every byte of it is as it should be."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from containers import result
from farm.payload import MEDIA_TYPES
from kernelfarm import canonical, digest, paths
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from tests.support import payloads


@pytest.fixture
def out(tmp_path: Path) -> Path:
    inside = tmp_path / "in"
    inside.mkdir()
    request = {"model": "model.onnx", "model_name": "cls", "target": {"name": "x86-64-v3"}}
    (inside / "request.json").write_bytes(canonical.dumps(request))
    (inside / "model.onnx").write_bytes(b"a model")
    payloads.write_result(inside, tmp_path / "out")
    return tmp_path / "out"


def rewrite(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = canonical.loads((out / "result.json").read_bytes())
    change(document)
    (out / "result.json").write_bytes(canonical.dumps(document))


def test_a_good_result_is_accepted_with_digests_from_the_bytes(out: Path) -> None:
    accepted = result.accept(out)
    assert [entry.name for entry in accepted.files] == sorted(result.COMPILED_FILES)
    weights = next(entry for entry in accepted.files if entry.name == "weights.bin")
    assert (weights.digest, weights.size) == (digest.of_bytes(b"weights" * 8), 56)
    assert [(stage.name, stage.digest) for stage in accepted.stages] == [("import", digest.of_bytes(b"a model"))]


def entry(out: Path, name: str, data: bytes = b"any") -> Path:
    (out / "objects").mkdir(exist_ok=True)
    (out / "objects" / name).write_bytes(data)
    return out / "objects" / name


def test_objects_for_later_compiles_may_lie_beside_the_payload(out: Path) -> None:
    paths = [entry(out, letter * 64) for letter in "ba"]
    assert result.accept(out).objects == tuple(sorted(paths))


@pytest.mark.parametrize("name", ["x", "a" * 63, "A" * 64, ".tmp-" + "a" * 59])
def test_an_object_of_another_name_is_refused(out: Path, name: str) -> None:
    entry(out, name)
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


def test_an_object_that_is_no_plain_file_is_refused(out: Path) -> None:
    entry(out, "a" * 64).rename(out.parent / "elsewhere")
    (out / "objects" / ("a" * 64)).symlink_to(out.parent / "elsewhere")
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED
    (out / "objects" / ("a" * 64)).unlink()
    (out / "objects").rmdir()
    (out / "objects").symlink_to(out.parent)
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


def test_the_files_are_those_of_a_payload() -> None:
    assert set(result.PAYLOAD_FILES) == set(MEDIA_TYPES)


def spoil_byte(out: Path) -> None:
    (out / "payload/kernels.so").write_bytes(b"other")


def remove_file(out: Path) -> None:
    (out / "payload/media.hdr").unlink()


def add_file(out: Path) -> None:
    (out / "payload/extra").touch()


def add_beside(out: Path) -> None:
    (out / "left-over").touch()


def link(out: Path) -> None:
    (out / "payload/weights.bin").rename(out.parent / "weights.bin")
    (out / "payload/weights.bin").symlink_to(out.parent / "weights.bin")


def describe(out: Path, name: str, data: bytes) -> None:
    """Have result.json tell of these bytes, so that a file is refused for nothing but its kind or size."""
    entry = {"digest": digest.of_bytes(data), "size": len(data)}
    rewrite(out, lambda document: document["files"].update({name: entry}))


def pipe(out: Path) -> None:
    describe(out, "weights.bin", b"")
    (out / "payload/weights.bin").unlink()
    os.mkfifo(out / "payload/weights.bin")


def socket_file(out: Path) -> None:
    (out / "payload/weights.bin").unlink()
    with socket.socket(socket.AF_UNIX) as made, paths.socket_address(out / "payload/weights.bin") as address:
        made.bind(address)


def folder(out: Path) -> None:
    (out / "payload/weights.bin").unlink()
    (out / "payload/weights.bin").mkdir()


def link_to_payload(out: Path) -> None:
    (out / "payload").rename(out.parent / "payload")
    (out / "payload").symlink_to(out.parent / "payload")


def too_large(out: Path) -> None:
    data = bytes((1 << 20) + 1)
    describe(out, "media.hdr", data)
    (out / "payload/media.hdr").write_bytes(data)


def no_result(out: Path) -> None:
    (out / "result.json").unlink()


def link_to_result(out: Path) -> None:
    (out / "result.json").rename(out.parent / "result.json")
    (out / "result.json").symlink_to(out.parent / "result.json")


SPOILERS = [
    spoil_byte,
    remove_file,
    add_file,
    add_beside,
    link,
    pipe,
    socket_file,
    folder,
    link_to_payload,
    too_large,
    no_result,
    link_to_result,
]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_anything_else_is_refused_as_a_whole(out: Path, spoil: Callable[[Path], None]) -> None:
    spoil(out)
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(schema="compile-result/2"),
        lambda document: document.update(more=1),
        lambda document: document.update(files=[]),
        lambda document: document.update(stages={}),
        lambda document: document["files"].update({"../x": {"digest": digest.of_bytes(b""), "size": 0}}),
        lambda document: document["files"]["config.json"].update(size=1),
        lambda document: document["files"].pop("config.json"),
        lambda document: document["files"]["weights.bin"].update(digest=digest.of_bytes(b"other")),
        lambda document: document.update(stages=[{"name": "s", "digest": digest.of_bytes(b"")}] * 257),
    ],
    ids=["schema", "field", "files", "stages", "other-name", "size", "missing", "digest", "too-many-stages"],
)
def test_a_result_file_that_says_something_else_is_refused(
    out: Path, change: Callable[[dict[str, object]], object]
) -> None:
    rewrite(out, change)
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"a":1,"a":1}', b'{ "schema":"compile-result/1"}', b"\xff", b"[" * 200_000]
)
def test_a_result_file_that_is_not_canonical_json_is_refused(out: Path, data: bytes) -> None:
    (out / "result.json").write_bytes(data)
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


def test_a_stage_without_a_digest_is_refused(out: Path) -> None:
    rewrite(out, lambda document: document.update(stages=[{"name": "s", "digest": Digest("sha256:1")}]))
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


def test_the_childs_error_is_read(tmp_path: Path) -> None:
    error = FarmError(Code.MODEL_INVALID, "not a model", "truncated", "Copy it again.", {"offset": 12})
    (tmp_path / "error.json").write_bytes(canonical.dumps(error.to_json()))
    read = result.read_error(tmp_path)
    assert read is not None
    assert read.to_json() == error.to_json()


def claimed(out: Path, code: Code) -> FarmError | None:
    """What is read where a child claims a code."""
    (out / "error.json").write_bytes(canonical.dumps(FarmError(code, "so it says").to_json()))
    return result.read_error(out)


def test_what_a_compile_can_find_is_believed(tmp_path: Path) -> None:
    for code in (code for code in Code if code.of_compile):
        read = claimed(tmp_path, code)
        assert read is not None and read.code is code


def test_what_others_say_of_a_compile_it_cannot_claim(tmp_path: Path) -> None:
    for code in (code for code in Code if not code.of_compile and code is not Code.INTERNAL):
        read = claimed(tmp_path, code)
        assert read is not None
        assert (read.code, read.detail) == (Code.CHILD_CRASHED, {"claimed": f"{code.number} so it says"})
    assert claimed(tmp_path, Code.INTERNAL) is None


@pytest.mark.parametrize("data", [b"", b"nonsense", b"{}", b'{"schema":"error/1","code":"FARM-E9999"}', b"[1]"])
def test_an_error_file_that_is_none_is_not_believed(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "error.json").write_bytes(data)
    assert result.read_error(tmp_path) is None


def test_no_error_file_is_no_error(tmp_path: Path) -> None:
    assert result.read_error(tmp_path) is None


def test_an_error_file_behind_a_link_is_not_followed(tmp_path: Path) -> None:
    error = FarmError(Code.MODEL_INVALID, "not a model")
    (tmp_path / "elsewhere").write_bytes(canonical.dumps(error.to_json()))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/error.json").symlink_to(tmp_path / "elsewhere")
    assert result.read_error(tmp_path / "out") is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: os.link(folder / "weights.bin", folder.parent.parent / "another-name"),
        lambda folder: (folder / "media-run").chmod(0o4755),
        lambda folder: (folder / "media-run").chmod(0o2755),
    ],
    ids=["hard-link", "setuid", "setgid"],
)
def test_a_file_with_another_name_or_another_owners_rights_is_refused(
    out: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(out / "payload")
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED


def test_of_a_flood_of_names_only_some_are_read(out: Path) -> None:
    for number in range(1000):
        (out / f"{number:04}").touch()
    with pytest.raises(FarmError) as caught:
        result.accept(out)
    assert caught.value.code is Code.RESULT_REFUSED
