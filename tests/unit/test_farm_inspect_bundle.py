"""Inspection shows what the bytes say, and refuses a bundle that is not whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.inspect import inspect
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError, Status
from tests.support import bundles


def text_file(path: Path, name: str) -> dict[str, Any]:
    """Stands in for the reader of linked files: the binaries of these bundles are text."""
    return {"target": name, "bytes": path.stat().st_size}


def test_a_bundle_shows_its_digest_and_its_targets(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")

    found = inspect(made.path, hardening=text_file)

    assert (found["kind"], found["digest"], found["name"], found["version"]) == ("bundle", made.digest, "cls", "1.2.0")
    assert {name: target["digest"] for name, target in found["targets"].items()} == dict(made.payloads)
    v4 = found["targets"]["x86-64-v4"]
    assert v4["platform"] == {"architecture": "amd64", "os": "linux", "variant": "v4"}
    assert v4["files"]["weights.bin"] == {"digest": digest.of_bytes(b"weights" * 8), "size": 56}
    assert v4["size"] == sum(blob["size"] for blob in v4["files"].values())
    assert v4["header"]["target"] == "x86-64-v4"
    assert v4["hardening"]["target"] == "x86-64-v4"
    assert set(v4["runtime"]) == {"libmedia_engine.so", "media-run"}


def test_attestations_are_shown_as_not_checked(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work", targets=["x86-64-v4"])

    listed = inspect(made.path, hardening=text_file)["attestations"]

    assert {item["kind"]: item["subject"] for item in listed} == {
        "urn:kernel-farm:bundle-signature:1": made.digest,
        "https://slsa.dev/provenance/v1": made.payloads[0][1],
    }
    assert {item["signature"] for item in listed} == {"not checked"}
    assert {item["key"] for item in listed} == {bundles.signer().public.keyid}


def test_a_damaged_bundle_is_not_shown(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")
    (made.path / "index.json").write_bytes(b"{}")

    with pytest.raises(FarmError) as caught:
        inspect(made.path, hardening=text_file)

    assert caught.value.code is Code.BUNDLE_INVALID


def test_the_files_of_the_device_are_shown(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")

    index = inspect(made.path / "media.idx")
    header = inspect(tmp_path / "work" / "x86-64-v4" / "media.hdr")

    assert (index["kind"], len(index["headers"])) == ("device index", 2)
    assert (header["kind"], header["header"]["target"]) == ("payload header", "x86-64-v4")
    assert index["headers"][1]["digest"] == header["digest"]


def test_a_json_document_is_shown(tmp_path: Path) -> None:
    path = bundles.payload(tmp_path / "payload", "x86-64-v4") / "hardening.json"

    assert inspect(path)["content"] == {"schema": "hardening/1"}


def test_a_linked_file_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "some.so"
    path.write_bytes(b"\x7fELF and nothing more")

    assert inspect(path, hardening=text_file)["hardening"] == {"target": "", "bytes": 21}
    with pytest.raises(FarmError) as caught:
        inspect(path)
    assert caught.value.code is Code.ELF_INVALID


@pytest.mark.parametrize("data", [b"", b"text", b"\0" * 100])
def test_a_file_of_another_kind_is_said_to_be_unknown(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)

    with pytest.raises(FarmError) as caught:
        inspect(tmp_path / "file")

    assert (caught.value.code, caught.value.status) == (Code.INSPECT_UNKNOWN, Status.BAD)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        inspect(tmp_path / "absent")

    assert caught.value.code is Code.FILE_MISSING
