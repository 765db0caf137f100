"""Looks at the folder that results go to before anything is compiled for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

_PROBE = b"\0" * 65536


def check(out: Path, needed: int) -> None:
    """Find out whether files can be written below `out`, `needed` bytes in all; leaves nothing behind, makes no `out`.

    Raises `FarmError` OUTPUT_NOT_A_FOLDER when a file is in the way, DISK_FULL, READ_ONLY or PERMISSION.
    """
    place = out.absolute()
    while not place.exists() and not place.is_symlink():
        place = place.parent
    if not place.is_dir():
        raise FarmError(
            Code.OUTPUT_NOT_A_FOLDER,
            f"{str(out)!r} cannot be a folder",
            f"{place} is not one",
            "Choose another --out, or move the file away.",
            detail={"file": str(place)},
        )
    with files.coded("the output folder cannot be written", place):
        with files.temp_file(place) as (stream, _path):
            stream.write(_PROBE)
            stream.flush()
        free = shutil.disk_usage(place).free
    if free < needed:
        raise FarmError(
            Code.DISK_FULL,
            "the output folder has too little space",
            f"{place} has {free >> 20} MiB free, about {max(1, needed >> 20)} MiB are needed",
            "Free some space or choose another --out.",
            detail={"file": str(place), "free": free, "needed": needed},
        )
