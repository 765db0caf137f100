"""SHA-256 digests, written "sha256:<64 hex>" everywhere: in JSON, in file names (without the prefix) and in OCI."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NewType

from kernelfarm.errors import Code, FarmError

Digest = NewType("Digest", str)

PREFIX = "sha256:"
_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")
_CHUNK = 1 << 20


def of_bytes(data: bytes | bytearray | memoryview) -> Digest:
    """Digest of bytes in memory."""
    return Digest(PREFIX + hashlib.sha256(data).hexdigest())


def of_stream(stream: IO[bytes]) -> Digest:
    """Digest of what a binary stream still holds, read in pieces of 1 MiB."""
    state = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        state.update(chunk)
    return Digest(PREFIX + state.hexdigest())


def of_file(path: Path) -> Digest:
    """Digest of a file's bytes. Raises `OSError` as `open` does."""
    with path.open("rb") as stream:
        return of_stream(stream)


def of_tree(root: Path, patterns: Iterable[str] = ("**/*",)) -> Digest:
    """Digest of a source tree: the regular files that match any glob `pattern`, by path in sorted order.

    Hashed are the lengths and bytes of each POSIX path relative to `root` and the digest of the file's bytes; modes,
    times and the place of `root` do not count. Byte-code caches are never part of a source tree. Raises `FarmError`
    when nothing matches: an empty tree is always a mistake of the caller and would make a constant key.
    """
    found = {
        path.relative_to(root).as_posix(): path
        for pattern in patterns
        for path in root.glob(pattern)
        if path.is_file() and "__pycache__" not in path.relative_to(root).parts
    }
    if not found:
        raise FarmError(Code.FILE_MISSING, "no source file matches", f"the folder {root.name!r} holds none")
    state = hashlib.sha256()
    for name, path in sorted(found.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")):
        encoded = name.encode("utf-8", "surrogateescape")
        state.update(len(encoded).to_bytes(8, "little") + encoded)
        state.update(bytes.fromhex(hex_of(of_file(path))))
    return Digest(PREFIX + state.hexdigest())


def parse(text: str) -> Digest:
    """The digest that `text` spells: "sha256:" and 64 lower-case hex digits; else raises `FarmError` DIGEST_INVALID."""
    if not isinstance(text, str) or _PATTERN.fullmatch(text) is None:
        raise FarmError(
            Code.DIGEST_INVALID, f"{text!r} is not a digest", "it must be sha256: and 64 lower-case hex digits"
        )
    return Digest(text)


def hex_of(digest: Digest) -> str:
    """The 64 hex digits of a digest."""
    return digest.removeprefix(PREFIX)
