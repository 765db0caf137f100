"""The farm's own code as a compile container sees it: a deterministic archive with its own digest, unpacked once.

It holds what may decide a payload's bytes (the compiler's rooms and the runtime's sources) and nothing else; it is
bound read-only, so an edit is runnable at once and moves no image.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import toolchains
from containers import image, sealed
from containers.image import Image, bytecode, tarball
from containers.image.tarball import Entry
from kernelfarm import digest, files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code as ErrorCode
from kernelfarm.errors import FarmError
from kernelfarm.paths import Home

ROOMS = ("kernelc", "kernelfarm", "runtime", "toolchains")
_NAME = 16
_FOLDER = re.compile(r"[0-9a-f]{16}(-[0-9a-f]{16})?")
_LEFT_OUT = ("__pycache__", "tests")


@dataclass(frozen=True, slots=True)
class Code:
    """The code: digest of its archive, and the folder to bind at `sealed.CODE`."""

    digest: Digest
    folder: Path


def unpacked(home: Home, source: Path | None = None) -> Code:
    """The code of this installation (or that in `source`), unpacked below `<home>/image/code`, read-only.

    Where the image is built, byte code for its Python lies in the folder too, at `sealed.BYTECODE` as a sandbox sees
    it. Raises coded errors of the disk.
    """
    entries, built, found = _planned(home, source)
    place = found.folder
    if not place.is_dir():
        with files.coded("the farm's own code could not be unpacked", place):
            place.parent.mkdir(parents=True, exist_ok=True)
            files.sweep(place.parent)
            with files.temp_folder(place.parent) as work:
                _write(work, entries)
                if built is not None:
                    _add_bytecode(work, built)
                _rename(work, place)
    return found


def _planned(home: Home, source: Path | None = None) -> tuple[list[Entry], Image | None, Code]:
    """The members, the image whose Python reads them, and the code as it is, or would be, unpacked."""
    with files.coded("the farm's own code could not be read", home.root):
        entries = members(source or Path(toolchains.__file__).parent.parent)
    found = tarball.write(io.BytesIO(), entries)
    built = image.find(home)
    name = digest.hex_of(found)[:_NAME] + ("" if built is None else f"-{digest.hex_of(built.digest)[:_NAME]}")
    return entries, built, Code(found, home.root / "image" / "code" / name)


def superseded(home: Home) -> tuple[Path, ...]:
    """Folders of code that is not this installation's, sorted: no new compile uses them."""
    _entries, _built, code = _planned(home)
    current = code.folder
    if not current.parent.is_dir():
        return ()
    return tuple(sorted(path for path in current.parent.iterdir() if _FOLDER.fullmatch(path.name) and path != current))


def archive(source: Path | None = None) -> bytes:
    """The archive of which `Code.digest` is the digest."""
    data = io.BytesIO()
    tarball.write(data, members(source or Path(toolchains.__file__).parent.parent))
    return data.getvalue()


def members(source: Path) -> list[Entry]:
    """The archive's members. Raises `FarmError` FILE_MISSING when a room is not there, `OSError` as the system does."""
    found = []
    for room in ROOMS:
        if not (source / room).is_dir():
            advice = "Run `make setup` again."
            raise FarmError(ErrorCode.FILE_MISSING, f"the room {room} is missing", f"looked in {source}", advice)
        for place, folders, names in os.walk(source / room):
            folders[:] = [name for name in folders if name not in _LEFT_OUT]
            at = Path(place)
            found.append(Entry(at.relative_to(source).as_posix()))
            kept = [name for name in names if not name.endswith(".pyc")]
            found += [
                Entry((at / name).relative_to(source).as_posix(), 0o644, (at / name).read_bytes()) for name in kept
            ]
    return found


def _write(folder: Path, entries: list[Entry]) -> None:
    for entry in sorted(entries, key=lambda entry: entry.name):
        place = folder / entry.name
        if entry.source is None:
            place.mkdir()
        else:
            assert isinstance(entry.source, bytes)
            place.write_bytes(entry.source)
            place.chmod(0o444)
            os.utime(place, (0, 0))
    folder.chmod(0o755)


def _add_bytecode(folder: Path, built: Image) -> None:
    prefix = folder / Path(sealed.BYTECODE).relative_to(sealed.CODE)
    if built.bytecode.is_dir():
        shutil.copytree(built.bytecode, prefix, copy_function=os.link)  # one copy for all folders of code
    bytecode.of_code(built.rootfs, folder, sealed.CODE, prefix)


def _rename(work: Path, place: Path) -> None:
    try:
        work.rename(place)
    except OSError:
        if not place.is_dir():  # else another process was faster, with the same bytes
            raise
