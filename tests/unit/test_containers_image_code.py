"""The farm's own code as a sandbox sees it."""

from __future__ import annotations

import os
import shutil
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from containers.image import code
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Another copy of the rooms: other times, other modes, byte code beside."""
    source = tmp_path / "copy"
    for room in code.ROOMS:
        shutil.copytree(ROOT / room, source / room, copy_function=shutil.copyfile)
    (source / "kernelc" / "__pycache__").mkdir(exist_ok=True)
    (source / "kernelc" / "__pycache__" / "x.pyc").write_bytes(b"byte code")
    (source / "kernelc" / "pipeline.py").chmod(0o600)
    os.utime(source / "kernelc" / "pipeline.py", (1, 1))
    return source


def test_the_digest_is_that_of_the_archive_and_of_nothing_else(tmp_path: Path, copy: Path) -> None:
    here = code.unpacked(Home(tmp_path / "home"))

    assert here.digest == digest.of_bytes(code.archive())
    assert here.digest == code.unpacked(Home(tmp_path / "other"), copy).digest


def test_the_folder_holds_what_the_archive_does_read_only(tmp_path: Path) -> None:
    here = code.unpacked(Home(tmp_path / "home"))

    with tarfile.open(fileobj=BytesIO(code.archive())) as archive:
        files = [member for member in archive if member.isfile()]
        for member in files:
            place = here.folder / member.name
            stream = archive.extractfile(member)
            assert stream is not None
            assert place.read_bytes() == stream.read()
            assert place.stat().st_mode & 0o777 == 0o444
    assert {"kernelc/__main__.py", "runtime/src/call.c", "toolchains/targets/x86-64-v3.toml"} <= {
        member.name for member in files
    }
    assert {path.name for path in here.folder.iterdir()} == {"kernelc", "kernelfarm", "runtime", "toolchains"}


def test_an_edit_gives_another_folder_and_the_old_one_stays(tmp_path: Path, copy: Path) -> None:
    home = Home(tmp_path / "home")
    before = code.unpacked(home, copy)
    with (copy / "kernelc" / "pipeline.py").open("a") as stream:
        stream.write("# an edit\n")

    after = code.unpacked(home, copy)

    assert after.digest != before.digest
    assert not (before.folder / "kernelc/pipeline.py").read_text().endswith("# an edit\n")
    assert (after.folder / "kernelc/pipeline.py").read_text().endswith("# an edit\n")
    assert code.superseded(home) == (after.folder,)  # what was before the edit is this installation's own


def test_a_room_that_is_missing_is_named(tmp_path: Path, copy: Path) -> None:
    shutil.rmtree(copy / "runtime")

    with pytest.raises(FarmError) as refusal:
        code.unpacked(Home(tmp_path / "home"), copy)

    assert refusal.value.code is Code.FILE_MISSING
    assert refusal.value.what == "the room runtime is missing"
