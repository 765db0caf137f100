"""The statement of what the licence gate says of a payload. What is in the verdict is the gate's to know, not ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelfarm.digest import Digest
from signing.release import verdicts_named
from signing.statement import Statement, Subject, invalid

LICENCES = "urn:kernel-farm:licences:1"
VERDICT = "licence-verdict/1"
"""Schema of the predicate."""


def statement(verdict: Mapping[str, Any], name: str, payload: Digest) -> Statement:
    """The statement of a verdict (its JSON object) about a payload; `name` is that payload's, "model/target"."""
    return Statement((Subject(name, payload),), LICENCES, verdict)


def counting(statements: Mapping[str, Statement]) -> dict[Digest, str]:
    """The verdict that counts of each payload, by its file, among statements by theirs.

    Of two that is the one that the release does not rest on: it was made later.
    """
    named = verdicts_named(statements.values())
    last = sorted(statements, key=lambda name: statements[name].identity not in named)
    return {statements[name].subjects[0].digest: name for name in last if statements[name].predicate_type == LICENCES}


def describe(found: Statement) -> str:
    """A phrase for a report: "allow", or "allow until 2027-01-31, then deny"."""
    said, strict, until = (str(found.predicate.get(key, "")) for key in ("decision", "strict", "expires"))
    return f"{said} until {until}, then {strict}" if until else said


def require_form(found: Statement, name: str) -> None:
    """Raises `FarmError` ATTESTATION_INVALID (file `name`) unless it is about one payload and holds a verdict."""
    if len(found.subjects) != 1 or found.predicate.get("schema") != VERDICT:
        raise invalid(name, f"it holds no {VERDICT} about one payload")
