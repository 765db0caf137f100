"""Digests of bytes, files and source trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError

ABC = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4, example of "abc"


def test_bytes_and_a_file_of_them_have_the_published_digest(tmp_path: Path) -> None:
    file = tmp_path / "abc"
    file.write_bytes(b"abc")
    assert digest.of_bytes(b"abc") == ABC
    assert digest.of_file(file) == ABC
    assert digest.hex_of(digest.parse(ABC)) == ABC.removeprefix("sha256:")


@pytest.mark.parametrize(
    "text", ["", "sha256:", ABC[:-1], ABC + "0", ABC + "\n", ABC.upper(), ABC.replace("sha256", "sha512"), None, 3]
)
def test_anything_else_is_no_digest(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        digest.parse(text)
    assert caught.value.code is Code.DIGEST_INVALID


def _tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def test_a_tree_has_one_digest_wherever_it_lies_and_however_it_was_made(tmp_path: Path) -> None:
    files = {"a.py": b"1", "b/c.py": b"2", "b.py": b"3"}
    first = _tree(tmp_path / "first", files)
    second = _tree(tmp_path / "se cond é", dict(reversed(files.items())))
    (second / "a.py").chmod(0o700)
    _tree(second, {"__pycache__/a.cpython-311.pyc": b"x", "b/__pycache__/c.py": b"x", "notes.txt": b"not a source"})
    expected = "sha256:b74aa270fcb20b0dddcca7bd05ed5f21330ad94de76e5162f7045c997b7c5bfa"
    assert digest.of_tree(first, ["**/*.py"]) == expected
    assert digest.of_tree(second, ["**/*.py", "*.py"]) == expected


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": b"1", "b/c.py": b"2!"},
        {"a.py": b"1", "b/d.py": b"2"},
        {"a.py": b"1"},
        {"a.py": b"1", "b/c.py": b"2", "d.py": b""},
        {"a.py": b"2", "b/c.py": b"1"},
    ],
)
def test_every_change_of_a_tree_changes_its_digest(tmp_path: Path, files: dict[str, bytes]) -> None:
    before = digest.of_tree(_tree(tmp_path / "before", {"a.py": b"1", "b/c.py": b"2"}), ["**/*.py"])
    assert digest.of_tree(_tree(tmp_path / "after", files), ["**/*.py"]) != before


def test_a_tree_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        digest.of_tree(tmp_path, ["**/*.py"])
    assert caught.value.code is Code.FILE_MISSING
