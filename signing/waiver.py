"""A licence waiver: somebody who may says, signed and for a time, that one finding of the licence gate is acceptable.

It names the finding by its digest, which covers the material with its version, the bytes of its file (of all of them
where it is about the whole), the licence and the rule: once one of them changes, the waiver covers nothing. It is a
document of its own, not part of a bundle's attestations.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from kernelfarm import canonical
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from signing.statement import Statement, Subject, read_whole

WAIVER = "urn:kernel-farm:licence-waiver:1"
LONGEST_DAYS = 366
"""A waiver ends: somebody has to look again after a year."""


@dataclass(frozen=True, slots=True)
class Waiver:
    """What is waived and why. `expires` is the first day (ISO, UTC) on which it counts no more; `file` may be empty."""

    SCHEMA: ClassVar[str] = "licence-waiver/1"
    finding: Digest
    material: str
    file: str
    expression: str
    rule: str
    reason: str
    granted: str
    expires: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise _refused("it gives no reason", "Say with --reason why the finding is acceptable.")
        first, last = _day(self.granted), _day(self.expires)
        if not 0 < (last - first).days <= LONGEST_DAYS:
            why = f"it is granted on {self.granted} and expires on {self.expires}"
            raise _refused(why, f"Let it expire 1 to {LONGEST_DAYS} days from now.")

    def statement(self) -> Statement:
        """The statement that is signed."""
        name = f"{self.material}/{self.file}" if self.file else self.material
        return Statement((Subject(name, self.finding),), WAIVER, canonical.to_json(self))


def from_statement(found: Statement, name: str) -> Waiver:
    """The waiver in a statement; raises `FarmError` ATTESTATION_INVALID (file `name`) unless it is one and no more."""
    return read_whole(
        found,
        lambda said: canonical.from_json(Waiver, said, name="waiver"),
        Waiver.statement,
        name,
        "it is no licence waiver",
    )


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as reason:
        raise _refused(f"{text!r} is not a day", "Write days like 2027-01-31.") from reason
    if day.isoformat() != text:
        raise _refused(f"{text!r} is not a day", "Write days like 2027-01-31.")
    return day


def _refused(why: str, advice: str) -> FarmError:
    return FarmError(Code.WAIVER_INVALID, "the waiver cannot be used", why, advice)
