"""What this machine saw of release logs: the end of each, so that a registry cannot go back unnoticed.

`<home>/registry/<hex>.json`, one document for each repository and key. Who never looked before knows nothing: a
consumer's lock file carries the end of the log along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from farm.registry import log
from farm.registry.log import Head, ReleaseLog
from farm.registry.reference import Reference
from kernelfarm import canonical, digest, files
from kernelfarm.digest import Digest
from kernelfarm.paths import Home

FOLDER = "registry"


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
    name = canonical.digest_of({"place": reference.place, "key": keyid})
    path = home.create().root / FOLDER / f"{digest.hex_of(name)}.json"
    with files.coded("what was seen of a release log could not be kept", path):
        path.parent.mkdir(exist_ok=True)
    with files.locked(path):
        seen = Seen(reference.place, keyid, 0, None)
        with files.coded("what was seen of a release log could not be read", path):
            if path.exists():
                seen = canonical.decode(Seen, path.read_bytes(), name=str(path))
        log.require_extends(found, Head(seen.sequence, seen.identity), reference.place)
        head = found.head
        if head.sequence > seen.sequence:
            made = Seen(reference.place, keyid, head.sequence, head.identity)
            files.atomic_write(path, canonical.encode(made))
