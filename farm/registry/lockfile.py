"""A consumer's lock file: which bundles, by digest, and the end of each release log that said so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from farm.registry import reference
from farm.release.versions import parse
from kernelfarm import canonical, nouns
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from signing.release import is_log


@dataclass(frozen=True, slots=True)
class Locked:
    """One bundle in a lock file: where it was found, what it is, which log said so, and the end of that."""

    name: str
    source: str
    version: str
    channel: str
    digest: Digest
    payloads: tuple[tuple[str, Digest], ...]
    log: str
    log_sequence: int
    log_identity: Digest


@dataclass(frozen=True, slots=True)
class Lockfile:
    """A consumer's lock file. `key` is the identifier of the public key that everything in it was verified with."""

    SCHEMA: ClassVar[str] = "consumer-lock/2"
    key: str
    bundles: tuple[Locked, ...]

    def __post_init__(self) -> None:
        nouns.sort_field(self, "bundles", lambda item: item.name)


def read(path: Path) -> Lockfile:
    """The lock file at `path`; raises `FarmError` LOCKFILE_INVALID."""
    try:
        found = canonical.from_json(Lockfile, canonical.loads(path.read_bytes(), name=str(path)), name=str(path))
        for item in found.bundles:
            nouns.require_file_name(item.name)
            reference.parse_repository(item.source)
            parse(item.version)
        if not found.bundles:
            raise ValueError("it names no bundle")
        if any(item.log_sequence < 1 or not is_log(item.log) for item in found.bundles):
            raise ValueError("it says of a log that nothing was seen of it")
    except (OSError, ValueError, FarmError) as reason:
        why = reason.why or reason.what if isinstance(reason, FarmError) else str(reason)
        advice = "Take it from version control, or remove it and make one with `farm lock`."
        raise FarmError(
            Code.LOCKFILE_INVALID, f"{path} is not a lock file", why, advice, {"file": str(path)}
        ) from reason
    return found
