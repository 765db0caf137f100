"""Bytes of a constant that lie in a file beside the model. Nothing outside the model's folder is ever opened."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath
from typing import Any

from kernelc.frontend.site import shown
from kernelfarm.errors import Code, FarmError
from kernelfarm.files import coded


def read_external(folder: Path, entries: Iterable[Any], size: int, what: str) -> bytes:
    """The `size` bytes that `entries` (TensorProto.external_data: location, offset, length) point to.

    Raises `FarmError` EXTERNAL_OUTSIDE, EXTERNAL_MISSING or TENSOR_INVALID.
    """
    location, offset, _ = place_of(entries, size, what)
    path = _located(folder, location)
    available = path.stat().st_size
    if offset + size > available:
        raise _not_there(what, size, size, offset, f" of a file of {available}")
    with coded("external data could not be read", path), path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


def place_of(entries: Iterable[Any], size: int, what: str) -> tuple[str, int, int]:
    """Location, offset and length in bytes that the entries of a tensor of `size` bytes say, no file looked at.

    Raises `FarmError` EXTERNAL_OUTSIDE or TENSOR_INVALID.
    """
    keys = {entry.key: entry.value for entry in entries}
    location = keys.get("location", "")
    windows = PureWindowsPath(location)  # its rules see drives and both kinds of slash
    if not location or "\0" in location or windows.root or windows.drive or ".." in windows.parts:
        raise _outside(location, "the location must be a path inside the model's folder")
    offset, length = _number(keys, "offset", 0, what), _number(keys, "length", size, what)
    if length != size:
        raise _not_there(what, size, length, offset)
    return location, offset, length


def _located(folder: Path, location: str) -> Path:
    """The plain file that a location names inside the folder, links followed."""
    try:
        path = (folder / location).resolve(strict=True)
        mode = path.stat().st_mode
    except (OSError, RuntimeError) as reason:
        raise FarmError(
            Code.EXTERNAL_MISSING,
            f"external data {shown(location)} of the model is missing",
            "no such file can be read in the model's folder",
            "Put it beside the model, under this name.",
            detail={"location": location},
        ) from reason
    if not path.is_relative_to(folder.resolve()):
        raise _outside(location, "a link leads out of the model's folder")
    if not stat.S_ISREG(mode):
        raise _outside(location, "it is not a plain file")
    return path


def _number(keys: dict[str, str], name: str, default: int, what: str) -> int:
    text = keys.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise FarmError(Code.TENSOR_INVALID, f"{what} is invalid", f"{name} {shown(text)} of its data is no number")
    return int(text)


def _not_there(what: str, size: int, length: int, offset: int, end: str = "") -> FarmError:
    why = f"it takes {size} bytes; given are {length} at {offset}{end}"
    return FarmError(Code.TENSOR_INVALID, f"{what} is invalid", why, "Export the model again.")


def _outside(location: str, why: str) -> FarmError:
    return FarmError(
        Code.EXTERNAL_OUTSIDE,
        f"external data {shown(location)} of the model is refused",
        why,
        "Keep external data as plain files in the model's folder.",
        detail={"location": location},
    )
