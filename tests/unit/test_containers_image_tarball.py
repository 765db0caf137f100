"""Deterministic tar archives, read back by Python's own reader."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from containers.image import tarball
from containers.image.tarball import Entry
from kernelfarm.errors import Code, FarmError

ENTRIES = [
    Entry("usr"),
    Entry("tmp", mode=0o1777),
    Entry("usr/program", 0o755, b"#!/bin/sh\n"),
    Entry("usr/text", 0o644, b"x" * 513),
    Entry("usr/link", target="program"),
]


def _written(entries: list[Entry]) -> bytes:
    stream = io.BytesIO()
    tarball.write(stream, entries)
    return stream.getvalue()


def test_another_reader_finds_what_was_written() -> None:
    with tarfile.open(fileobj=io.BytesIO(_written(ENTRIES))) as archive:
        found = {member.name: member for member in archive}
        text = archive.extractfile("usr/text")
        assert text is not None
        assert text.read() == b"x" * 513

    assert list(found) == ["tmp", "usr", "usr/link", "usr/program", "usr/text"]
    assert found["tmp"].isdir()
    assert found["tmp"].mode == 0o1777
    assert found["usr/program"].mode == 0o755
    assert found["usr/link"].linkname == "program"
    assert {(each.uid, each.gid, each.mtime, each.uname) for each in found.values()} == {(0, 0, 0, "")}


def test_the_digest_is_that_of_the_bytes_and_no_order_changes_it() -> None:
    stream = io.BytesIO()

    found = tarball.write(stream, ENTRIES[::-1])

    assert found == "sha256:163775e8e18eb11d74171fd246f7bca5021b591f322b74117d538f5183ea0b99"
    assert stream.getvalue() == _written(ENTRIES)


def test_the_length_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"y" * 1000)
    entries = [*ENTRIES, Entry("file", 0o644, tmp_path / "file")]

    assert tarball.length(entries) == len(_written(entries))


def test_a_long_name_is_split_where_a_folder_ends() -> None:
    name = "/".join(["folder" * 10] * 3)  # 182 bytes

    with tarfile.open(fileobj=io.BytesIO(_written([Entry(name, 0o644, b"data")]))) as archive:
        assert archive.getnames() == [name]


@pytest.mark.parametrize("entry", [Entry("x" * 101, 0o644, b""), Entry("link", target="y" * 101)])
def test_what_does_not_fit_is_refused(entry: Entry) -> None:
    with pytest.raises(FarmError) as refusal:
        _written([entry])

    assert refusal.value.code is Code.IMAGE_INVALID
