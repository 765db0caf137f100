"""Where two payload folders differ."""

from __future__ import annotations

from pathlib import Path

from farm import differences
from kernelfarm import digest


def folder(path: Path, **files: bytes) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def test_equal_folders_have_no_difference(tmp_path: Path):
    a, b = folder(tmp_path / "a", kernels=b"12", weights=b""), folder(tmp_path / "b", weights=b"", kernels=b"12")

    assert differences.between(a, b) == ()


def test_the_first_differing_byte_is_named_with_its_place_and_both_sides(tmp_path: Path):
    a = folder(tmp_path / "a", kernels=b"abcdefgh", weights=b"same")
    b = folder(tmp_path / "b", kernels=b"abCdeFgh", weights=b"same")

    (found,) = differences.between(a, b, locate=lambda path, offset: f"{path.name}+{offset}")

    assert (found.file, found.found.offset, found.count) == ("kernels", 2, 2)
    assert (found.found.original, found.found.rebuilt) == (digest.of_bytes(b"abcdefgh"), digest.of_bytes(b"abCdeFgh"))
    assert found.describe() == (
        "kernels: first at offset 2 (kernels+2), 2 bytes in all: 636465666768 first, 436465466768 rebuilt"
    )


def test_a_longer_file_differs_at_the_end_of_the_shorter(tmp_path: Path):
    a, b = folder(tmp_path / "a", log=b"12"), folder(tmp_path / "b", log=b"1234")

    (found,) = differences.between(a, b)

    assert found.describe() == "log: first at offset 2, 2 bytes in all: end of file first, 3334 rebuilt"


def test_files_of_one_side_alone_are_named(tmp_path: Path):
    a, b = folder(tmp_path / "a", both=b"", old=b"1"), folder(tmp_path / "b", both=b"", new=b"2")

    assert [found.describe() for found in differences.between(a, b)] == [
        "new: only in the rebuild",
        "old: only in the first build",
    ]
