"""What the licence gate is about: materials with their files, what a scan found in them, findings, a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import ClassVar

from kernelfarm import canonical, digest
from kernelfarm.digest import Digest
from kernelfarm.nouns import sort_field

MOST_MATCHES = 16
"""Matches that are kept of one file: enough to see why."""


class Role(StrEnum):
    """How a material is used; the policy has a table for each."""

    LINKED = "linked"
    IMPORTED = "imported"
    TOOL = "tool"
    MODEL = "model"


class Decision(Enum):
    """What the policy says, from good to bad."""

    ALLOW = "allow"
    REVIEW = "review"
    DENY = "deny"

    @property
    def severity(self) -> int:
        """0 for ALLOW, higher for worse."""
        return list(Decision).index(self)


class Outcome(StrEnum):
    """How the scan of a file ended."""

    DONE = "done"
    TIMEOUT = "timeout"
    FAILED = "failed"
    TOO_LARGE = "too large"


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of a material: its name there, digest and size in bytes. Data (weights) has no licence text to scan."""

    name: str
    digest: Digest
    size: int
    scanned: bool = True


@dataclass(frozen=True, slots=True)
class Material:
    """Something that has a licence. `licence` is its declared SPDX expression, "" for none; `source` says who declares.

    `note` replaces the reason of the finding that a missing licence gives; `refused` makes it a denial. `content` is
    the digest of a package's own file or of a model, where no files are listed. `doubt` is why it may not be what was
    used, "" where nothing speaks against it.
    """

    name: str
    version: str
    purl: str
    role: Role
    licence: str
    source: str
    pieces: tuple[Piece, ...] = ()
    note: str = ""
    refused: bool = False
    content: Digest | None = None
    doubt: str = ""

    def __post_init__(self) -> None:
        sort_field(self, "pieces", lambda item: item.name)


@dataclass(frozen=True, slots=True)
class Match:
    """A text that ScanCode took for a licence: its SPDX expression, ScanCode's rule, the line, the score (percent)."""

    expression: str
    rule: str
    line: int
    score: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What ScanCode found in the bytes of a digest; `expression` is "" where there is no licence text."""

    SCHEMA: ClassVar[str] = "licence-scan/1"
    digest: Digest
    outcome: Outcome
    expression: str = ""
    matches: tuple[Match, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not simply allowed. `file` is "" where it is about the material as a whole.

    `rule` is the line of the policy ('linked.deny "GPL-*"') or the kind of fault (timeout, unknown, unscanned).
    `waiver` names the waiver that covers it, by its digest.
    """

    key: Digest
    material: str
    role: Role
    file: str
    digest: Digest | None
    expression: str
    rule: str
    decision: Decision
    reason: str
    remedy: str
    waiver: Digest | None = None

    @classmethod
    def of(
        cls,
        material: Material,
        piece: Piece | None,
        expression: str,
        rule: str,
        decision: Decision,
        reason: str,
        remedy: str,
    ) -> Finding:
        """A finding with its key: what a waiver names. Another version, content, licence or rule is another finding.

        One about the material as a whole covers the contents of all its files.
        """
        content = None if piece is None else piece.digest
        name = "" if piece is None else piece.name
        contents = sorted(one.digest for one in material.pieces) if piece is None else [piece.digest]
        of = [material.name, material.version, material.purl, material.role.value, material.content]
        identity = [of, name, contents, expression, rule]
        key = digest.of_bytes(canonical.dumps(identity))
        return cls(key, material.name, material.role, name, content, expression, rule, decision, reason, remedy)


@dataclass(frozen=True, slots=True)
class Judged:
    """A material as the verdict lists it: declared, and concluded from the declaration and all of its files."""

    name: str
    version: str
    purl: str
    role: Role
    declared: str
    concluded: str
    source: str
    files: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class Scanner:
    """What scanned: name, version, and the digest of the lock that it is installed from."""

    name: str
    version: str
    lock: Digest


@dataclass(frozen=True, slots=True)
class Applied:
    """A waiver that covers findings: digest of the signed document, who signed, until when (ISO date), why.

    What it says of its finding (`material`, `file`, `expression`, `rule`) is what its signer read.
    """

    digest: Digest
    keyid: str
    expires: str
    reason: str
    finding: Digest
    document: str
    material: str
    file: str
    expression: str
    rule: str

    def covers(self, item: Finding) -> bool:
        """Whether it names this finding, by its key and in the words that its signer read."""
        return (self.finding, self.material, self.file, self.expression, self.rule) == (
            item.key,
            item.material,
            item.file,
            item.expression,
            item.rule,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of one payload. It holds no time: `decision` is with all waivers, `strict` without any.

    `expires` is the first day on which a waiver that matters is over, "" without one; from then on `strict` counts.
    """

    SCHEMA: ClassVar[str] = "licence-verdict/1"
    policy: Digest
    scanner: Scanner | None
    decision: Decision
    strict: Decision
    expires: str
    materials: tuple[Judged, ...]
    findings: tuple[Finding, ...] = ()
    waivers: tuple[Applied, ...] = field(default=())

    def on(self, day: str) -> Decision:
        """The decision on a day, as an ISO date ("2026-11-29")."""
        return self.strict if self.expires and day >= self.expires else self.decision

    def open_findings(self, day: str) -> tuple[Finding, ...]:
        """The findings that no waiver covers on a day, the worst first."""
        valid = {item.digest for item in self.waivers if day < item.expires}
        found = [item for item in self.findings if item.waiver not in valid]
        return tuple(sorted(found, key=worst_first))


def worst_first(item: Finding) -> tuple[int, str, str, str, str]:
    """The key by which findings are sorted."""
    return (-item.decision.severity, item.material, item.file, item.rule, item.expression)
