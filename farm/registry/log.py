"""The release log of a repository: which tag means which bundle, signed, each entry chained to the one before.

A registry can move a tag; it cannot make the log say so. It can hide the end of the log; who saw that end before
notices (`farm.registry.memory`).
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from farm.release import versions
from farm.release.versions import Version
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, advising
from signing import dsse
from signing.keys import PublicKey
from signing.release import LOG_ENTRY, Deed, LogEntry

ADVICE = "Do not use the registry; tell who runs it, and publish to another repository."
_LONGEST_LINE = 16 << 10
"""A signed entry has 1.4 KiB, and 6 KiB with the longest reason; whatever is longer is not parsed."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a log: how many entries, and the identity of the last; 0 and None for an empty one."""

    sequence: int
    identity: Digest | None


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """A log whose signatures and chain hold. `sealed` are the signed entries, as they lie in the registry."""

    entries: tuple[LogEntry, ...] = ()
    sealed: tuple[bytes, ...] = ()

    @property
    def name(self) -> str:
        """Its name, the same in every copy; empty for an empty log, which is none yet."""
        return self.entries[0].log if self.entries else ""

    @property
    def repository(self) -> str:
        """Whose log it is, by its path; empty for an empty log."""
        return self.entries[0].repository if self.entries else ""

    @property
    def head(self) -> Head:
        """Its end."""
        return Head(len(self.entries), self.entries[-1].identity if self.entries else None)

    def published(self, tag: str) -> LogEntry | None:
        """The entry that published a tag."""
        return next((item for item in self.entries if item.deed is Deed.PUBLISH and item.tag == tag), None)

    def of_digest(self, wanted: Digest) -> LogEntry | None:
        """The entry that published a bundle."""
        return next((item for item in self.entries if item.deed is Deed.PUBLISH and item.digest == wanted), None)

    def withdrawn(self, tag: str) -> LogEntry | None:
        """The entry that withdrew a tag."""
        return next((item for item in self.entries if item.deed is Deed.WITHDRAW and item.tag == tag), None)

    def versions(self) -> list[Version]:
        """Every version that was published, withdrawn ones too."""
        return [versions.parse(item.version) for item in self.entries if item.deed is Deed.PUBLISH]

    def latest(self) -> LogEntry | None:
        """The last final release that was not withdrawn."""
        good = [
            item
            for item in self.entries
            if item.deed is Deed.PUBLISH and not self.withdrawn(item.tag) and not _version(item).prerelease
        ]
        return max(good, key=_version, default=None)

    def before(self, version: Version) -> LogEntry | None:
        """The last final release before a version: what that one is compared with.

        Withdrawn ones too: who has one is who most needs to know what the next release changes.
        """
        lower = [
            item
            for item in self.entries
            if item.deed is Deed.PUBLISH and not _version(item).prerelease and _version(item) < version
        ]
        return max(lower, key=_version, default=None)

    def encode(self) -> bytes:
        """The bytes that lie in the registry: a signed entry per line, as canonical JSON has no line ends."""
        return b"".join(line + b"\n" for line in self.sealed)

    def with_entry(self, sealed: bytes, public: PublicKey, repository: str) -> ReleaseLog:
        """The log with one more signed entry, checked."""
        return decode(self.encode() + sealed + b"\n", public, repository)


def decode(data: bytes, public: PublicKey, repository: str | None) -> ReleaseLog:
    """The log in the bytes of a registry, its signatures, chain and rules checked.

    `repository` is whose log it must be, by its path; None for anybody's. Raises `FarmError` LOG_INVALID, or as
    `dsse.open_sealed` for an entry that the key did not sign; `entry N` is the file that they name.
    """
    entries: list[LogEntry] = []
    lines: list[bytes] = []
    stream = io.BytesIO(data)  # line by line: a list of 64 MiB of line ends takes half a gigabyte
    while line := stream.readline(_LONGEST_LINE + 2):
        name = f"entry {len(lines) + 1} of the release log"
        if len(line) > _LONGEST_LINE + 1:
            raise _invalid(name, f"it has more than {_LONGEST_LINE} bytes")
        if not line.endswith(b"\n"):
            raise _invalid("its end", "it does not end with a whole line")
        line = line[:-1]
        with advising(ADVICE):
            statement = dsse.open_sealed(line, public, name)
            if statement.predicate_type != LOG_ENTRY:
                raise _invalid(name, "it is no entry of a log")
            entry = LogEntry.from_statement(statement, name)
        _require_next(entry, entries, name)
        if repository is not None and entry.repository != repository:
            raise _invalid(name, f"it belongs to the log of {entry.repository}, not to that of {repository}")
        entries.append(entry)
        lines.append(line)
    return ReleaseLog(tuple(entries), tuple(lines))


def next_entry(
    log: ReleaseLog,
    deed: Deed,
    repository: str,
    *,
    name: str,
    version: str,
    digest: Digest,
    channel: str,
    reason: str = "",
    redirect: str = "",
) -> LogEntry:
    """The entry that follows the last one of a log, about the bundle of a digest; the first one names the log."""
    return LogEntry(
        log=log.name or secrets.token_hex(16),
        sequence=len(log.entries) + 1,
        previous=log.head.identity,
        deed=deed,
        repository=log.repository or repository,
        name=name,
        version=version,
        tag=versions.parse(version).tag,
        digest=digest,
        channel=channel,
        reason=reason,
        redirect=redirect,
    )


def _require_next(entry: LogEntry, before: Sequence[LogEntry], name: str) -> None:
    previous = before[-1].identity if before else None
    if entry.sequence != len(before) + 1 or entry.previous != previous:
        raise _invalid(name, "it does not follow the entry before it: one is missing, exchanged or out of place")
    if before and (entry.log, entry.repository, entry.name) != (before[0].log, before[0].repository, before[0].name):
        raise _invalid(name, "it belongs to another log")
    if _version(entry).tag != entry.tag:
        raise _invalid(name, f"its tag {entry.tag!r} is not that of its version")
    published = next((item for item in before if item.deed is Deed.PUBLISH and item.tag == entry.tag), None)
    if entry.deed is Deed.PUBLISH and (published or entry.reason or entry.redirect):
        raise _invalid(name, f"it publishes {entry.tag} again, or gives a reason for it")
    if entry.deed is Deed.WITHDRAW:
        again = any(item.deed is Deed.WITHDRAW and item.tag == entry.tag for item in before)
        other = published is None or (published.digest, published.channel) != (entry.digest, entry.channel)
        if other or again or not entry.reason:
            raise _invalid(
                name, f"it withdraws {entry.tag} twice, for no reason, or without that having been published"
            )


def _version(entry: LogEntry) -> Version:
    return versions.parse(entry.version)


def _invalid(name: str, why: str) -> FarmError:
    return FarmError(Code.LOG_INVALID, "the release log is damaged", f"{name}: {why}", ADVICE, {"file": name})


def require_extends(log: ReleaseLog, seen: Head, place: str) -> None:
    """Raise `FarmError` LOG_BEHIND or LOG_FORKED unless the log begins with what was seen of it before."""
    if len(log.entries) < seen.sequence:
        why = f"its release log ends at entry {len(log.entries)}, entry {seen.sequence} was seen before"
        advice = "It is a stale mirror, or somebody put an old copy in its place: use the registry itself, or wait."
        detail = {"entries": len(log.entries), "seen": seen.sequence}
        raise FarmError(Code.LOG_BEHIND, f"{place} shows an older state", why, advice, detail)
    if seen.sequence and log.entries[seen.sequence - 1].identity != seen.identity:
        why = f"its entry {seen.sequence} is {log.entries[seen.sequence - 1].identity}, {seen.identity} was seen before"
        advice = "Two histories were signed with one key: find out who did, before anything of it is used."
        raise FarmError(Code.LOG_FORKED, f"the release log of {place} was rewritten", why, advice)


__all__ = ["Head", "ReleaseLog", "decode", "next_entry", "require_extends"]
