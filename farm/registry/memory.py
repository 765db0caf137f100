"""What this machine saw of release logs: the end of each, so that a registry cannot go back unnoticed.

`<home>/registry/<hex>.json`, one document for each repository and key. Who never looked before knows nothing: a
consumer's lock file carries the end of the log along. Who wrote a log keeps its signed lines too, `<hex>.log`: they can
be put back where a registry lost them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from farm.registry import log
from farm.registry.log import Head, ReleaseLog
from farm.registry.reference import Reference
from kernelfarm import canonical, digest, files
from kernelfarm.digest import Digest
from kernelfarm.paths import Home

FOLDER = "registry"
_LINES = ".log"


@dataclass(frozen=True, slots=True)
class Seen:
    """The end of a log as it was seen last."""

    SCHEMA: ClassVar[str] = "seen-log/1"
    place: str
    key: str
    sequence: int
    identity: Digest | None


def require_and_remember(home: Home, reference: Reference, keyid: str, found: ReleaseLog) -> None:
    """Raise as `log.require_extends` for a log that lacks what was seen of it; else remember its end."""
    path = _place(home, reference, keyid)
    with files.locked(path):
        seen = _seen(path, reference, keyid)
        log.require_extends(found, Head(seen.sequence, seen.identity), reference.place)
        head = found.head
        if head.sequence > seen.sequence:
            made = Seen(reference.place, keyid, head.sequence, head.identity)
            files.atomic_write(path, canonical.encode(made))


def require_seen(home: Home, origin: Reference, keyid: str, found: ReleaseLog) -> None:
    """Raise as `log.require_extends` for a mirror's log that lacks what was seen of its origin; nothing is written."""
    path = _place(home, origin, keyid)
    with files.locked(path):
        seen = _seen(path, origin, keyid)
    log.require_extends(found, Head(seen.sequence, seen.identity), origin.place)


def keep(home: Home, reference: Reference, keyid: str, found: ReleaseLog) -> None:
    """Keep the signed lines of a log that this farm wrote to."""
    path = _place(home, reference, keyid)
    with files.locked(path):
        files.atomic_write(path.with_suffix(_LINES), found.encode())


def kept(home: Home, reference: Reference, keyid: str) -> bytes:
    """The signed lines that were kept of a log; empty where none were."""
    path = _place(home, reference, keyid).with_suffix(_LINES)
    with files.coded("what was kept of a release log could not be read", path):
        return path.read_bytes() if path.exists() else b""


def _place(home: Home, reference: Reference, keyid: str) -> Path:
    name = canonical.digest_of({"place": reference.place, "key": keyid})
    path = home.create().root / FOLDER / f"{digest.hex_of(name)}.json"
    with files.coded("what was seen of a release log could not be kept", path):
        path.parent.mkdir(exist_ok=True)
    return path


def _seen(path: Path, reference: Reference, keyid: str) -> Seen:
    with files.coded("what was seen of a release log could not be read", path):
        if path.exists():
            return canonical.decode(Seen, path.read_bytes(), name=str(path))
    return Seen(reference.place, keyid, 0, None)
