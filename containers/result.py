"""What a compile child wrote, read by a parent that trusts none of it.

Exactly the expected names, plain files only, each within its limit, digests computed here from the bytes. Anything else
is refused as a whole, with RESULT_REFUSED.
"""

from __future__ import annotations

import itertools
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from kernelfarm import canonical, digest, objects
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import PayloadFile

MIB = 1 << 20

PAYLOAD_FILES: dict[str, int] = {
    "NOTICE": MIB,
    "config.json": 16 * MIB,
    "golden.bin": 1024 * MIB,
    "hardening.json": MIB,
    "kernels.so": 256 * MIB,
    "libmedia_engine.so": 32 * MIB,
    "links.json": 16 * MIB,
    "media-run": 32 * MIB,
    "media.hdr": MIB,
    "media_engine.h": MIB,
    "sbom.cdx.json": 64 * MIB,
    "weights.bin": 2048 * MIB,
}
"""The files of a payload with their largest sizes in bytes."""
ADDED_FILES = frozenset({"NOTICE", "sbom.cdx.json"})
"""Those that the parent adds: no compile writes them."""
COMPILED_FILES = {name: limit for name, limit in PAYLOAD_FILES.items() if name not in ADDED_FILES}

SCHEMA = "compile-result/1"
DOCUMENT_LIMIT = MIB
STAGE_LIMIT = 256
_CLAIM_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class StageDigest:
    """Digest of what one stage of the compiler handed to the next."""

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Accepted:
    """A checked result: the payload's folder, its files by name, the stages in their order.

    `objects` are files that another compile might take (`kernelfarm.objects`); their content is not checked.
    """

    folder: Path
    files: tuple[PayloadFile, ...]
    stages: tuple[StageDigest, ...]
    objects: tuple[Path, ...] = ()


def accept(out_dir: Path) -> Accepted:
    """Check what a child left in `out_dir`. Raises `FarmError` RESULT_REFUSED, or an ENVIRONMENT error of the disk."""
    try:
        return _accept(out_dir)
    except PermissionError as reason:  # it took the permissions of its own output away
        _refuse(f"its output cannot be read: {reason.strerror}")


def _accept(out_dir: Path) -> Accepted:
    entries = out_dir / objects.FOLDER
    extra = {entries.name} if entries.is_dir() and not entries.is_symlink() else set()
    _require_names(out_dir, {"payload", "result.json"} | extra, "the output folder")
    folder = out_dir / "payload"
    if folder.is_symlink() or not folder.is_dir():
        _refuse("payload is not a folder")
    _require_names(folder, set(COMPILED_FILES), "the payload")
    files = tuple(_measure(folder, name, limit) for name, limit in sorted(COMPILED_FILES.items()))
    claimed, stages = _document(out_dir / "result.json")
    found = {entry.name: {"digest": entry.digest, "size": entry.size} for entry in files}
    for name in sorted(found):
        if claimed.get(name) != found[name]:
            _refuse(f"result.json does not describe {name} as it is", file=name)
    if set(claimed) != set(found):
        _refuse("result.json names other files than the payload holds")
    return Accepted(folder, files, stages, _objects(entries) if extra else ())


def read_error(out_dir: Path) -> FarmError | None:
    """The error that a failed child reported in error.json; None when there is none that can be believed to be one.

    A child speaks for itself (`Code.of_compile`). What others find out about it, it cannot claim: it would then decide
    whether it is tried again, or what is said of the farm. Such a claim is CHILD_CRASHED, with the claim in its detail.
    """
    try:
        data = canonical.loads(_read(out_dir / "error.json", DOCUMENT_LIMIT), name="error.json")
    except (FarmError, OSError):
        return None
    error = FarmError.from_json(data)
    if error.code is Code.INTERNAL:
        return None
    if not error.code.of_compile:
        return FarmError(
            Code.CHILD_CRASHED,
            "the compiler ended without a result",
            f"it claims {error.code.number}, which is not for a compile to say",
            "Read its log with `farm logs`, and report it.",
            {"claimed": str(error)[:_CLAIM_LIMIT]},
        )
    return error


def _require_names(folder: Path, expected: set[str], what: str) -> None:
    found = set(_names(folder, len(expected) + 5))
    if extra := sorted(found - expected):
        _refuse(f"{what} holds something else: {', '.join(repr(name) for name in extra[:5])}")
    if missing := sorted(expected - found):
        _refuse(f"{what} lacks {', '.join(missing)}")


def _names(folder: Path, most: int) -> list[str]:
    """Names in a folder, at most so many: a hostile compile may make millions."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in itertools.islice(entries, most)]


def _objects(folder: Path) -> tuple[Path, ...]:
    found = tuple(folder / name for name in sorted(_names(folder, objects.COUNT_LIMIT + 1)))
    if len(found) > objects.COUNT_LIMIT:
        _refuse(f"more than {objects.COUNT_LIMIT} objects")
    for path in found:
        if objects.NAME.fullmatch(path.name) is None:
            _refuse(f"an object is named {path.name!r}")
        _open_plain(path, objects.ENTRY_LIMIT).close()
    return found


def _measure(folder: Path, name: str, limit: int) -> PayloadFile:
    with _open_plain(folder / name, limit) as stream:
        size = os.fstat(stream.fileno()).st_size
        return PayloadFile(name, digest.of_stream(stream), size)


def _read(path: Path, limit: int) -> bytes:
    with _open_plain(path, limit) as stream:
        return stream.read(limit)


def _open_plain(path: Path, limit: int) -> BinaryIO:
    """A plain file of at most `limit` bytes, open for reading; follows no link, waits for no pipe's writer."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as reason:
        _refuse(f"{path.name} cannot be opened as a plain file: {reason.strerror}", file=path.name)
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
        os.close(handle)
        _refuse(f"{path.name} is not a plain file of at most {limit} bytes", file=path.name)
    if facts.st_nlink != 1 or facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
        os.close(handle)
        _refuse(f"{path.name} has another name as well, or runs as somebody", file=path.name)
    return os.fdopen(handle, "rb")


def _document(path: Path) -> tuple[dict[str, Any], tuple[StageDigest, ...]]:
    try:
        return _parse(canonical.loads(_read(path, DOCUMENT_LIMIT), strict=True, name=path.name))
    except FarmError as reason:
        if reason.code is Code.RESULT_REFUSED:
            raise
        _refuse(f"{reason.what}{reason.why and ': '}{reason.why}", file=path.name)


def _parse(document: Any) -> tuple[dict[str, Any], tuple[StageDigest, ...]]:
    fields = {"schema", "files", "stages"}
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or set(document) != fields:
        _refuse(f"result.json is not of schema {SCHEMA}")
    claimed, stages = document["files"], document["stages"]
    if not isinstance(claimed, dict) or not isinstance(stages, list) or len(stages) > STAGE_LIMIT:
        _refuse("result.json lacks its files or stages")
    return claimed, canonical.from_json(tuple[StageDigest, ...], stages, name="result.json stages")


def _refuse(why: str, **detail: str) -> NoReturn:
    raise FarmError(
        Code.RESULT_REFUSED,
        "the result of a compile was refused",
        why,
        "Nothing of it was kept. Run the build again; if it comes back, report it.",
        detail=detail,
    )
