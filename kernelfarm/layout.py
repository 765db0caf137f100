"""The folder of an OCI image layout, read without trusting anything in it.

Plain files at known places only; every blob hashed against its name; nothing followed that is a link; no path ever
comes out of a document. Faults are collected as `FarmError`s whose detail names the `file`, so that a report can list
them all. What the documents say is `kernelfarm.oci_bundle`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kernelfarm import digest, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci import Descriptor

LAYOUT = "oci-layout"
INDEX = "index.json"
DEVICE_INDEX = "media.idx"
BLOB_FOLDER = "blobs/sha256"

_FOLDERS = ("blobs", BLOB_FOLDER)
_ROOT_FILES = (LAYOUT, INDEX, DEVICE_INDEX)
_HEX = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader is willing to read: a hostile folder must not exhaust it. Sizes in bytes."""

    document: int = 4 << 20
    blob: int = 8 << 30
    total: int = 32 << 30
    files: int = 16_384
    payloads: int = 256
    attestations: int = 1_024
    layers: int = 256


@dataclass(slots=True)
class Folder:
    """A layout's folder after `scan`: its plain files, the blobs whose bytes fit their names, the faults so far."""

    root: Path
    limits: Limits
    names: list[str] = field(default_factory=list)
    blobs: dict[Digest, int] = field(default_factory=dict)
    faults: list[FarmError] = field(default_factory=list)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Collects a `FarmError` of the block as a fault, once."""
        try:
            yield
        except FarmError as error:
            if error not in self.faults:
                self.faults.append(error)

    def fault_of(self, name: str) -> FarmError | None:
        """The first fault about the file `name`."""
        return next((fault for fault in self.faults if fault.detail.get("file") == name), None)

    def read(self, name: str) -> bytes:
        """The bytes of a document at `name`; raises `FarmError` naming it."""
        with _opened(self.root) as folder, _plain(folder, name, self.limits.document) as file:
            return _read_all(file, name, self.limits.document)

    def read_blob(self, descriptor: Descriptor) -> bytes:
        """The bytes of a blob of at most `limits.document` bytes, checked again as they are read."""
        name = oci.blob_name(descriptor.digest)
        data = self.read(name)
        if len(data) != descriptor.size or digest.of_bytes(data) != descriptor.digest:
            raise fault(Code.BUNDLE_CHANGED, name, "its bytes are no longer those of its digest")
        return data

    def blob_path(self, descriptor: Descriptor) -> Path:
        """The file of a blob."""
        return self.root / oci.blob_name(descriptor.digest)


def fault(code: Code, name: str, why: str, **more: str) -> FarmError:
    """An error about the file `name` of a layout; `more` goes into its detail."""
    return FarmError(code, f"{name}: {code.title}", why, detail={"file": name, **more})


def scan(root: Path, limits: Limits | None = None) -> Folder:
    """Walk the folder `root` and hash every blob. Faults of the content are in the result.

    Raises `FarmError` BUNDLE_INVALID when `root` is no folder, PERMISSION when it cannot be read.
    """
    folder = Folder(root, limits or Limits())
    with _opened(root) as descriptor:
        _visit(descriptor, "", folder)
        folder.names.sort()
        _hash_blobs(descriptor, folder)
    for name in (LAYOUT, INDEX):
        if name not in folder.names and folder.fault_of(name) is None:
            folder.faults.append(fault(Code.BUNDLE_MISSING, name, "every bundle has this file"))
    if LAYOUT in folder.names:
        with folder.noting():
            if folder.read(LAYOUT) != oci.LAYOUT_BYTES:
                raise fault(Code.BUNDLE_INVALID, LAYOUT, f"it must be exactly {oci.LAYOUT_BYTES.decode()}")
    return folder


@contextmanager
def _opened(root: Path) -> Iterator[int]:
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError as reason:
        raise FarmError(
            Code.PERMISSION,
            f"{root} cannot be read",
            reason.strerror or "",
            "Change the permission of the folder.",
            {"file": "."},
        ) from reason
    except (OSError, ValueError) as reason:
        why = getattr(reason, "strerror", None) or str(reason)
        raise FarmError(Code.BUNDLE_INVALID, f"{root} is not a bundle's folder", why, detail={"file": "."}) from reason
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _visit(descriptor: int, prefix: str, folder: Folder) -> None:
    with os.scandir(descriptor) as entries:
        for entry in sorted(entries, key=lambda item: item.name):
            if len(folder.names) + len(folder.faults) >= folder.limits.files:
                folder.faults.append(fault(Code.BUNDLE_LIMIT, prefix or ".", f"more than {folder.limits.files} files"))
                return
            with folder.noting():
                _visit_entry(descriptor, entry, prefix + entry.name, folder)


def _visit_entry(parent: int, entry: os.DirEntry[str], name: str, folder: Folder) -> None:
    shown = name.encode("utf-8", "backslashreplace").decode()
    if entry.is_dir(follow_symlinks=False) and name in _FOLDERS:
        with _entered(parent, entry.name, shown) as inner:
            _visit(inner, f"{name}/", folder)
        return
    if not entry.is_file(follow_symlinks=False):
        raise fault(Code.BUNDLE_UNSAFE, shown, f"it is {_kind(entry)}, where only plain files belong")
    if not _is_place(name):
        raise fault(Code.BUNDLE_EXTRA, shown, "no document can name it")
    folder.names.append(name)


def strays(root: Path) -> list[str]:
    """What lies in a bundle's folder where no bundle has anything, sorted: it is somebody else's."""
    names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    return sorted(name for name in names if not _is_place(name))


def _is_place(name: str) -> bool:
    head, _, tail = name.rpartition("/")
    return name in _ROOT_FILES or (head == BLOB_FOLDER and _HEX.fullmatch(tail) is not None)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "a symbolic link"
    return "a folder" if entry.is_dir(follow_symlinks=False) else "a special file"


def _hash_blobs(descriptor: int, folder: Folder) -> None:
    total = 0
    for name in folder.names:
        if not name.startswith(BLOB_FOLDER):
            continue
        expected = Digest(digest.PREFIX + name.rpartition("/")[2])
        with folder.noting():
            found, size = _hash(descriptor, name, min(folder.limits.blob, folder.limits.total - total))
            total += size
            if found != expected:
                raise fault(Code.BUNDLE_CORRUPT, name, f"its bytes have the digest {found}")
            folder.blobs[expected] = size


def _hash(descriptor: int, name: str, limit: int) -> tuple[Digest, int]:
    """Digest and size of a plain file that nobody changes meanwhile."""
    with _plain(descriptor, name, limit) as file:
        before = os.fstat(file)
        state, size = hashlib.sha256(), 0
        while chunk := os.read(file, _CHUNK):
            state.update(chunk)
            size += len(chunk)
            if size > limit:
                raise fault(Code.BUNDLE_LIMIT, name, f"it is larger than {limit} bytes")
        if _changed(before, os.fstat(file)) or size != before.st_size:
            raise fault(Code.BUNDLE_CHANGED, name, "it was written to meanwhile")
    return Digest(digest.PREFIX + state.hexdigest()), size


def _changed(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


def _read_all(file: int, name: str, limit: int) -> bytes:
    pieces, size = [], 0
    while chunk := os.read(file, _CHUNK):
        pieces.append(chunk)
        size += len(chunk)
        if size > limit:
            raise fault(Code.BUNDLE_LIMIT, name, f"it is larger than {limit} bytes")
    return b"".join(pieces)


@contextmanager
def _plain(folder: int, name: str, limit: int) -> Iterator[int]:
    """Opens a plain file under the folder, component by component, following no link and waiting for no pipe."""
    head, _, tail = name.rpartition("/")
    if head:
        first, _, rest = name.partition("/")
        with _entered(folder, first, name) as inner, _plain(inner, rest, limit) as file:
            yield file
        return
    file = _open(folder, tail, os.O_NONBLOCK, name)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise fault(Code.BUNDLE_UNSAFE, name, "it is not a plain file")
        if found.st_size > limit:
            raise fault(Code.BUNDLE_LIMIT, name, f"it is larger than {limit} bytes")
        yield file
    finally:
        os.close(file)


@contextmanager
def _entered(folder: int, entry: str, name: str) -> Iterator[int]:
    inner = _open(folder, entry, os.O_DIRECTORY, name)
    try:
        yield inner
    finally:
        os.close(inner)


def _open(folder: int, entry: str, flags: int, name: str) -> int:
    try:
        return os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    except FileNotFoundError as reason:
        raise fault(Code.BUNDLE_MISSING, name, "it is not there") from reason
    except PermissionError as reason:
        raise fault(Code.PERMISSION, name, "it cannot be read") from reason
    except OSError as reason:
        raise fault(
            Code.BUNDLE_UNSAFE, name, f"it cannot be opened as what it should be: {reason.strerror}"
        ) from reason
