"""Tar archives whose bytes depend on nothing but names, modes, links and contents.

Plain ustar (POSIX.1-1988), written here: what Python's `tarfile` writes in the fields that nobody reads has changed
between its versions, and the digest of the image must not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

BLOCK = 512
_CHUNK = 1 << 20
_FILE, _LINK, _FOLDER = b"0", b"2", b"5"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file (`source`: its bytes or where they lie), a symbolic link (`target`), or, with neither, a folder."""

    name: str
    mode: int = 0o755
    source: bytes | Path | None = None
    target: str = ""

    @property
    def size(self) -> int:
        """Bytes of the content."""
        if isinstance(self.source, Path):
            return self.source.stat().st_size
        return len(self.source or b"")


def write(stream: BinaryIO, entries: Iterable[Entry]) -> Digest:
    """Write an archive of the entries, sorted by name, owned by root, made at the epoch; the digest of its bytes."""
    state = hashlib.sha256()
    for piece in _pieces(sorted(entries, key=lambda entry: entry.name)):
        state.update(piece)
        stream.write(piece)
    return Digest(digest.PREFIX + state.hexdigest())


def length(entries: Iterable[Entry]) -> int:
    """Bytes of the archive that `write` makes of the entries."""
    return sum(BLOCK + _padded(entry.size) for entry in entries) + 2 * BLOCK


def header(name: str, size: int, mode: int = 0o644, kind: bytes = _FILE, target: str = "") -> bytes:
    """The block before a member's content. Raises `FarmError` IMAGE_INVALID for a name that ustar cannot hold."""
    prefix, short = _split(name)
    link = os.fsencode(target)
    if len(link) > 100 or size >= 1 << 33:
        raise _unfit(name)
    fields = [
        short.ljust(100, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        b"%011o\0" % size,
        b"%011o\0" % 0,
        b" " * 8,
        kind,
        link.ljust(100, b"\0"),
        b"ustar\x0000",
        bytes(32 + 32 + 8 + 8),
        prefix.ljust(155, b"\0"),
    ]
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def pad(size: int) -> bytes:
    """The zeros after a content of `size` bytes."""
    return bytes(_padded(size) - size)


def _pieces(entries: Iterable[Entry]) -> Iterator[bytes]:
    for entry in entries:
        if entry.source is None:
            kind = _LINK if entry.target else _FOLDER
            name = entry.name if entry.target else entry.name + "/"
            yield header(name, 0, 0o777 if entry.target else entry.mode, kind, entry.target)
            continue
        yield header(entry.name, entry.size, entry.mode)
        if isinstance(entry.source, bytes):
            yield entry.source
        else:
            with entry.source.open("rb") as stream:
                yield from iter(_reader(stream), b"")
        yield pad(entry.size)
    yield bytes(2 * BLOCK)


def _reader(stream: BinaryIO) -> Callable[[], bytes]:
    return lambda: stream.read(_CHUNK)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _split(name: str) -> tuple[bytes, bytes]:
    data = os.fsencode(name)
    if len(data) <= 100:
        return b"", data
    for at in range(min(155, len(data) - 1), 0, -1):
        if data[at : at + 1] == b"/" and 0 < len(data) - at - 1 <= 100:
            return data[:at], data[at + 1 :]
    raise _unfit(name)


def _unfit(name: str) -> FarmError:
    return FarmError(Code.IMAGE_INVALID, f"{name} cannot be a part of the image", "its name or size is too large")
