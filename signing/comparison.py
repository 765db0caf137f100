"""The statement that a payload was rebuilt elsewhere, and what came of it: a `nouns.Comparison` as predicate."""

from __future__ import annotations

from kernelfarm import canonical
from kernelfarm.nouns import Comparison
from signing.statement import Statement, Subject, read_whole

COMPARISON = "urn:kernel-farm:rebuild-comparison:1"


def statement(comparison: Comparison, name: str) -> Statement:
    """The statement of a comparison about its original payload; `name` is that payload's, "model/target"."""
    return Statement((Subject(name, comparison.original),), COMPARISON, canonical.to_json(comparison))


def from_statement(found: Statement, name: str) -> Comparison:
    """What a comparison says; raises `FarmError` ATTESTATION_INVALID (file `name`) unless it is one and no more."""
    return read_whole(
        found,
        lambda said: canonical.from_json(Comparison, said, name="comparison"),
        lambda comparison: statement(comparison, found.subjects[0].name),
        name,
        "its comparison is malformed",
    )


def describe(comparison: Comparison) -> str:
    """A phrase for a report: "rebuilt the same, varied core, tz"."""
    how = "the same" if comparison.same else f"DIFFERENT ({comparison.rebuilt})"
    return f"rebuilt {how}, varied {', '.join(comparison.varied) or 'nothing'}"
