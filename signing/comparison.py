"""The statement that a payload was rebuilt elsewhere, and what came of it: a `nouns.Comparison` as predicate."""

from __future__ import annotations

from kernelfarm import canonical
from kernelfarm.errors import FarmError
from kernelfarm.nouns import Comparison
from signing.statement import Statement, Subject, invalid

COMPARISON = "urn:kernel-farm:rebuild-comparison:1"


def statement(comparison: Comparison, name: str) -> Statement:
    """The statement of a comparison about its original payload; `name` is that payload's, "model/target"."""
    return Statement((Subject(name, comparison.original),), COMPARISON, canonical.to_json(comparison))


def from_statement(found: Statement, name: str) -> Comparison:
    """What a comparison says; raises `FarmError` ATTESTATION_INVALID (file `name`) unless it is one and no more."""
    try:
        comparison = canonical.from_json(Comparison, dict(found.predicate), name="comparison")
        (subject,) = found.subjects
        if statement(comparison, subject.name).encode() != found.encode():
            raise ValueError("its parts do not fit each other")
    except (ValueError, FarmError) as reason:
        raise invalid(name, f"its comparison is malformed ({reason})") from reason
    return comparison


def describe(comparison: Comparison) -> str:
    """A phrase for a report: "rebuilt the same, varied core, tz"."""
    how = "the same" if comparison.same else f"DIFFERENT ({comparison.rebuilt})"
    return f"rebuilt {how}, varied {', '.join(comparison.varied) or 'nothing'}"
