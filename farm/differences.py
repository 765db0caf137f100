"""Where two payloads differ: file, first offset, how many bytes, what lies there. Pure but for reading the folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelfarm import digest, nouns

Locate = Callable[[Path, int], str]
"""Names the place of an offset in a file, such as "code, g12_conv+0x40", or nothing."""

_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Difference:
    """One file that differs.

    `found` is what the record keeps of it. `ours` and `theirs` are up to 16 bytes from the first that differs, in hex;
    `count` is how many differ, those past the end of one file included; `place` says what lies there.
    """

    found: nouns.Difference
    count: int = 0
    ours: str = ""
    theirs: str = ""
    place: str = ""

    @property
    def file(self) -> str:
        """The file's name in the payload."""
        return self.found.name

    def describe(self) -> str:
        """One line for a person."""
        if self.found.rebuilt is None or self.found.original is None:
            return f"{self.file}: only in the {'rebuild' if self.found.original is None else 'first build'}"
        where = f" ({self.place})" if self.place else ""
        return (
            f"{self.file}: first at offset {self.found.offset}{where}, {self.count} bytes in all: "
            f"{self.ours or 'end of file'} first, {self.theirs or 'end of file'} rebuilt"
        )


def nowhere(path: Path, offset: int) -> str:
    """The `Locate` that says nothing."""
    del path, offset
    return ""


def between(first: Path, rebuilt: Path, *, locate: Locate = nowhere) -> tuple[Difference, ...]:
    """The differences of two payload folders, by file name; empty when every byte is the same."""
    names = sorted(_names(first) | _names(rebuilt))
    found = (_compare(name, first / name, rebuilt / name, locate) for name in names)
    return tuple(one for one in found if one is not None)


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def _compare(name: str, first: Path, rebuilt: Path, locate: Locate) -> Difference | None:
    a = first.read_bytes() if first.exists() else None
    b = rebuilt.read_bytes() if rebuilt.exists() else None
    if a == b:
        return None
    original, again = (None if data is None else digest.of_bytes(data) for data in (a, b))
    if a is None or b is None:
        return Difference(nouns.Difference(name, original, again, None))
    common = min(len(a), len(b))
    unlike = np.flatnonzero(np.frombuffer(a, np.uint8, common) != np.frombuffer(b, np.uint8, common))
    offset = int(unlike[0]) if unlike.size else common
    count = int(unlike.size) + abs(len(a) - len(b))
    ours, theirs = (data[offset : offset + _SHOWN].hex() for data in (a, b))
    return Difference(nouns.Difference(name, original, again, offset), count, ours, theirs, locate(first, offset))
