"""Statements about releases: what made a bundle a release, and the entries of a registry's release log.

A release statement belongs to its bundle. A log entry belongs to the log of one repository: entries form a chain, each
names the digest of the statement before it, so that none can be taken out or exchanged later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from kernelfarm import canonical
from kernelfarm.digest import Digest
from signing.statement import Statement, Subject, invalid, read_whole

RELEASE = "urn:kernel-farm:release:2"
LOG_ENTRY = "urn:kernel-farm:release-log-entry:2"
_LOG = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Build:
    """One of the agreeing builds of a payload: who made it, where, and the digest of the statement that says so."""

    worker: str
    host: str
    runner: str
    statement: Digest


@dataclass(frozen=True, slots=True)
class Agreed:
    """A payload, its agreeing builds, the original first, and the digest of the statement that judged its licences.

    That verdict names the waivers it rests on by their digests.
    """

    target: str
    payload: Digest
    builds: tuple[Build, ...]
    verdict: Digest


@dataclass(frozen=True, slots=True)
class Demand:
    """What the channel demanded of licence verdicts: that each allows, else that none denies; by which policies."""

    allowed: bool
    policies: tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class Before:
    """The release that this one was compared with."""

    version: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Source:
    """What the farm was when it released: a commit without changes, or an installed distribution, unchanged."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Release:
    """Why a bundle may bear its version. `level` is what the comparison demanded, `reasons` say why."""

    SCHEMA: ClassVar[str] = "release/2"
    name: str
    version: str
    channel: str
    level: str
    reasons: tuple[str, ...]
    before: Before | None
    source: Source
    licences: Demand
    payloads: tuple[Agreed, ...]

    def statement(self, bundle: Digest) -> Statement:
        """The statement about the bundle with this digest."""
        return Statement((Subject(self.name, bundle),), RELEASE, canonical.to_json(self))

    @classmethod
    def from_statement(cls, statement: Statement, name: str) -> Release:
        """What a release statement says; raises `FarmError` ATTESTATION_INVALID (file `name`)."""
        return read_whole(
            statement,
            lambda said: canonical.from_json(cls, said, name="release"),
            lambda found: found.statement(statement.subjects[0].digest),
            name,
            "its release statement is malformed",
        )


def released_of(statements: Iterable[Statement]) -> Release | None:
    """The release statement among those of a bundle."""
    return next((Release.from_statement(item, "") for item in statements if item.predicate_type == RELEASE), None)


def verdicts_named(statements: Iterable[Statement]) -> frozenset[Digest]:
    """The licence verdicts that the release among these statements rests on, by their digests; none without one."""
    found = released_of(statements)
    return frozenset() if found is None else frozenset(item.verdict for item in found.payloads)


class Deed(Enum):
    """What an entry of the log does."""

    PUBLISH = "publish"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the release log of `repository` (a path without a host): `tag` means the bundle with `digest`, which
    was released for `channel`.

    `log` is the name of the log, 32 hex digits that who began it drew at random: copies of it have the same, two logs
    of one repository's path in two registries have not. `sequence` counts from 1; `previous` is the digest of the
    statement before, None for the first. A withdrawal has a `reason`, and may have a `redirect`: the version to take
    instead.
    """

    SCHEMA: ClassVar[str] = "release-log-entry/2"
    log: str
    sequence: int
    previous: Digest | None
    deed: Deed
    repository: str
    name: str
    version: str
    tag: str
    digest: Digest
    channel: str
    reason: str = ""
    redirect: str = ""

    def __post_init__(self) -> None:
        if not is_log(self.log) or not self.channel:
            raise ValueError("it names no log, or no channel")

    def statement(self) -> Statement:
        """The statement about the bundle."""
        return Statement((Subject(self.name, self.digest),), LOG_ENTRY, canonical.to_json(self))

    @property
    def identity(self) -> Digest:
        """The digest that the next entry names: of the statement, whose signature may be made anew."""
        return self.statement().identity

    @classmethod
    def from_statement(cls, statement: Statement, name: str) -> LogEntry:
        """The entry that a statement holds; raises `FarmError` ATTESTATION_INVALID (file `name`)."""
        return read_whole(
            statement,
            lambda said: canonical.from_json(cls, said, name="log entry"),
            cls.statement,
            name,
            "its log entry is malformed",
        )


def is_log(text: str) -> bool:
    """Whether this can be the name of a log."""
    return _LOG.fullmatch(text) is not None


def require_withdrawal(statement: Statement, name: str) -> LogEntry:
    """The withdrawal that a statement holds; raises `FarmError` ATTESTATION_INVALID (file `name`) for anything else."""
    if statement.predicate_type != LOG_ENTRY:
        raise invalid(name, f"its kind is {statement.predicate_type!r}")
    found = LogEntry.from_statement(statement, name)
    if found.deed is not Deed.WITHDRAW or found.previous is None or not found.reason:
        raise invalid(name, "it does not withdraw, for a reason, what an entry before it published")
    return found
