"""The content store: bytes by their digest, in a folder.

`<root>/sha256/<first two hex digits>/<64 hex digits>`, read-only files. A blob is written aside, synced and renamed:
its name never holds a part of it. Every read verifies. Any number of processes and threads may use one store at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kernelfarm import digest as digests
from kernelfarm import files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A blob in the store: its size in bytes, and when it was last put, in seconds since 1970 UTC."""

    digest: Digest
    size: int
    put_at: float


class ContentStore:
    """Blobs in the folder `root`, which need not exist before the first `put`.

    Making one removes what a crashed writer left (as `sweep` does) where the folder may be written. Failures of the
    disk are `FarmError`s of class ENVIRONMENT (DISK_FULL, READ_ONLY, PERMISSION, FILE_IO); after one, the store holds
    what it held before.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._temp = self._root / "tmp"
        try:
            self.sweep()
        except FarmError as reason:
            if reason.code not in (Code.READ_ONLY, Code.PERMISSION):  # a store that can only be read is fine
                raise

    def put_bytes(self, data: bytes) -> Digest:
        """Store bytes and give their digest. A damaged blob of the same digest is replaced."""
        digest = digests.of_bytes(data)
        if not self._kept(digest):
            self._write(io.BytesIO(data))
        return digest

    def put_file(self, path: Path) -> Digest:
        """Store a copy of a file and give the digest of the bytes that were copied."""
        with files.coded("a file could not be read", path), path.open("rb") as source:
            digest = digests.of_stream(source)
            if self._kept(digest):
                return digest
            source.seek(0)
            return self._write(source)

    def get_bytes(self, digest: Digest) -> bytes:
        """The bytes of a digest, verified; raises STORE_MISSING or STORE_CORRUPT, which name the file."""
        path = self._path(digest)
        with _reading(digest, path), path.open("rb") as stream:
            data = stream.read()
        _require(digest, digests.of_bytes(data), path)
        return data

    def open_path(self, digest: Digest) -> Path:
        """The path of a blob whose bytes were verified just now; raises as `get_bytes`. Never write to it."""
        path = self._path(digest)
        with _reading(digest, path):
            found = digests.of_file(path)
        _require(digest, found, path)
        return path

    def export(self, digest: Digest, path: Path, *, mode: int = 0o644) -> None:
        """Copy a blob to `path`, whole and verified or not at all; raises as `get_bytes`, or a coded write error."""
        blob = self._path(digest)
        with _reading(digest, blob):
            source = blob.open("rb")
        what = "a file could not be written"
        with source, files.coded(what, path), files.temp_file(path.parent, mode=mode) as (stream, temp):
            _require(digest, _copy(source, stream), blob)
            files.commit(stream, temp, path)

    def has(self, digest: Digest) -> bool:
        """Whether a blob is there; says nothing about its bytes."""
        return self._path(digest).is_file()

    def digests(self) -> Iterator[Digest]:
        """The digests of all blobs, in sorted order, unverified."""
        for path in sorted((self._root / "sha256").glob("[0-9a-f][0-9a-f]/*")):
            yield digests.parse(digests.PREFIX + path.name)

    def entries(self) -> Iterator[Entry]:
        """What lies in the store, in the order of the digests, unverified."""
        for digest in self.digests():
            with contextlib.suppress(FileNotFoundError):
                facts = self._path(digest).stat()
                yield Entry(digest, facts.st_size, facts.st_mtime)

    def remove(self, digest: Digest, *, before: float) -> bool:
        """Remove a blob that nobody put since `before`, in seconds since 1970 UTC; whether it is gone.

        Who puts it in the same moment finds it missing later, as after any loss, and makes it again.
        """
        path = self._path(digest)
        with files.coded("the content store could not be cleaned", path):
            try:
                if path.stat().st_mtime >= before:
                    return False
                path.unlink()
            except FileNotFoundError:
                pass
        return True

    def sweep(self) -> tuple[str, ...]:
        """Remove the temporary files of writers that are gone, never of living ones; the removed names, sorted."""
        return files.sweep(self._temp)

    def _path(self, digest: Digest) -> Path:
        text = digests.hex_of(digests.parse(digest))  # parsed again: no digest may lead out of the folder
        return self._root / "sha256" / text[:2] / text

    def _holds_valid(self, digest: Digest) -> bool:
        path = self._path(digest)
        try:
            return digests.of_file(path) == digest
        except FileNotFoundError:
            return False
        except OSError as reason:
            raise files.error_of(reason, "the content store could not be read", path) from reason

    def _kept(self, digest: Digest) -> bool:
        """Whether a valid blob is there; its time becomes now, so that no clean-up takes it for old."""
        if not self._holds_valid(digest):
            return False
        with contextlib.suppress(OSError):  # gone this moment, or another user's store
            os.utime(self._path(digest))
        return self._path(digest).exists()

    def _write(self, source: BinaryIO) -> Digest:
        with files.coded("content could not be stored", self._root):
            self._temp.mkdir(parents=True, exist_ok=True)
            with files.temp_file(self._temp, mode=0o444) as (stream, temp):
                digest = _copy(source, stream)
                path = self._path(digest)
                if not path.parent.is_dir():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    files.sync_folder(path.parent.parent)
                files.commit(stream, temp, path)
        return digest


@contextlib.contextmanager
def _reading(digest: Digest, path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as reason:
        raise FarmError(
            Code.STORE_MISSING,
            f"the store does not hold {digest}",
            f"{path} does not exist",
            "Run the build again to make it.",
            detail={"file": str(path), "digest": digest},
        ) from reason
    except OSError as reason:
        raise files.error_of(reason, "the content store could not be read", path) from reason


def _copy(source: BinaryIO, target: BinaryIO) -> Digest:
    state = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        state.update(chunk)
        target.write(chunk)
    return Digest(digests.PREFIX + state.hexdigest())


def _require(expected: Digest, found: Digest, path: Path) -> None:
    if found != expected:
        raise FarmError(
            Code.STORE_CORRUPT,
            "a stored file is damaged",
            f"{path} has the digest {found}, not {expected}",
            "Delete this file and run the build again.",
            detail={"file": str(path), "digest": expected, "found": found},
        )
