"""Whether licences and builds speak for a bundle, or against a release of it, by the statements that lie with it.

A release statement is for ever, and its verdicts stay with it. What was found since lies beside them, signed like all
else: a denial, a rebuild that gave other bytes. Such a thing counts whatever else allows, as nothing tells which of two
signed statements is the later one. Who hides it wins no more than time: `farm withdraw` is what cannot be hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from farm.licences import gate
from farm.release import quorum
from farm.verify import Report
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView
from sbom.licence.nouns import Decision
from signing import verify
from signing.licences import LICENCES
from signing.release import Demand, Release, released_of
from signing.statement import Statement

_ALWAYS = ""
"""A day before every other: on it no waiver has ended."""


def require(statements: Iterable[Statement]) -> None:
    """What everybody asks who takes a release: nothing that is signed speaks against it.

    No day is asked for: a waiver's end binds who publishes, and takes no bundle from who has it. Raises `FarmError`
    LICENCE_DENIED, BUILDS_DISAGREE.
    """
    try:
        for item in statements:
            subject = item.subjects[0]
            target = subject.name.rpartition("/")[2]
            if item.predicate_type == LICENCES:
                found = gate.from_statement(item, target)
                if found.decision is Decision.DENY:
                    raise gate.refusal(found, _ALWAYS, f"the payload of {target}")
            quorum.require_no_disagreement(target, subject.digest, [item])
    except FarmError as error:
        advice = "Take another release. Who released it: `farm withdraw` it where it is published; then: "
        raise FarmError(error.code, error.what, error.why, f"{advice}{error.next_step}", error.detail) from error


def judge(view: BundleView, statements: Sequence[Statement], day: str, demand: Demand) -> str:
    """What is asked of licences before a bundle goes out, released or published. What was found, for a report.

    Every payload was judged, by a policy that counts, and not denied; some channels demand that nothing wants a review.
    A missing verdict blocks on all: else who removes a denial had it released. Raises `FarmError` LICENCE_*.
    """
    ask = gate.require if demand.allowed else gate.refuse
    return ask(view, by_name(statements), day, demand.policies)


def require_released(statements: Mapping[str, Statement], version: str) -> Release:
    """The release statement among those of a bundle (by file) of this version; raises `FarmError` SIGNATURE_MISSING.

    A bundle gets its version by a release: one without the statement of that lost it, in a registry or a folder.
    """
    found = released_of(statements.values())
    if found is None:
        what, why = "there is no release statement of the bundle", f"it has the version {version}: it was released"
        advice = "Fetch it again from where it was published."
        raise FarmError(Code.SIGNATURE_MISSING, what, why, advice, {"file": "index.json"})
    return found


def require_standing(statements: Mapping[str, Statement], version: str) -> Release:
    """The same, which has all that it rests on, and against which nothing speaks.

    Raises `FarmError` as `require_released` and `require`, SIGNATURE_MISSING.
    """
    found = require_released(statements, version)
    verify.require_evidence(statements)
    require(statements.values())
    return found


def check(report: Report, subject: str, statements: Mapping[str, Statement]) -> None:
    """Add to the report of a bundle with a version whether that is a release against which nothing speaks."""
    with report.check("released", subject) as say:
        found = require_standing(statements, report.version or "")
        say(f"for the channel {found.channel}; nothing that is signed speaks against it")


def by_name(statements: Sequence[Statement]) -> dict[str, Statement]:
    """Statements whose files do not matter, each with a name for errors."""
    return {f"statement {number}": item for number, item in enumerate(statements)}
