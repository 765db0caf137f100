"""The gate: a verdict for a payload, the refusal of a bundle, and what a bundle's signed verdicts say on a day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from containers.image import pins
from farm.licences import materials, waivers
from farm.licences.materials import Contents
from farm.licences.waivers import Signed
from kernelfarm import canonical
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci_bundle import BundleView
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from sbom.licence import expression, policy, scan
from sbom.licence.judge import judge
from sbom.licence.nouns import Decision, Finding, Scan, Scanner, Verdict
from sbom.licence.policy import Policy
from sbom.licence.scan import Results, Tools
from signing import licences
from signing.statement import Statement

SCANS = "licences"
"""Folder of recorded scans, in the part of the farm's state that may be deleted."""


@dataclass(frozen=True, slots=True)
class Terms:
    """By what the gate judges. `licences`: SPDX expression of a model by its name, "" for every other model.

    `tools` None: nothing is scanned now, recorded scans count. `day`: the ISO date on which waivers must be good.
    """

    policy: Policy
    day: str
    licences: Mapping[str, str]
    waivers: tuple[Signed, ...] = ()
    tools: Tools | None = None


def today() -> str:
    """The day in UTC."""
    return datetime.now(UTC).date().isoformat()


def model_licences(texts: Iterable[str]) -> dict[str, str]:
    """Licences of models from texts like "MIT" or "name=MIT"; raises `FarmError` LICENCE_INVALID, or USAGE."""
    found: dict[str, str] = {}
    for text in texts:
        name, mark, licence = text.rpartition("=")
        if (name if mark else "") in found:
            what = f"the licence of {name or 'the model'} is given twice"
            raise FarmError(Code.USAGE, what, next_step="Give --model-licence once, or once for each NAME=.")
        found[name if mark else ""] = expression.normal(licence)
    return found


def results(home: Home) -> Results | None:
    """Recorded scans of the installed scanner; None without one."""
    try:
        return Results(home.cache / SCANS, scan.installed().identity)
    except FarmError:
        return None


def verdict(contents: Contents, terms: Terms, home: Home, store: ContentStore) -> Verdict:
    """Judge a payload. Scans what nobody scanned yet where `terms` have a scanner; raises as `scan.scan`."""
    licence = terms.licences.get(contents.model, terms.licences.get("", ""))
    found = materials.materials(contents, licence, pins.load().packages, store)
    scans, scanner = _scans(contents, terms.tools, home)
    made = judge(found, scans, terms.policy, scanner=scanner, waivers=waivers.good(terms.waivers, terms.day))
    ended = waivers.over(terms.waivers, terms.day)
    return replace(made, findings=tuple(_with_ended(item, ended) for item in made.findings))


def _scans(contents: Contents, tools: Tools | None, home: Home) -> tuple[Mapping[Digest, Scan], Scanner | None]:
    where = materials.places(contents)
    if tools is not None:
        kept = Results(home.cache / SCANS, tools.identity)
        return scan.scan(where, tools, kept, home.create().cache), tools.identity
    recorded = results(home)
    return ({}, None) if recorded is None else (scan.known(where, recorded), recorded.scanner)


def _with_ended(item: Finding, ended: Mapping[Digest, Signed]) -> Finding:
    if item.waiver is not None or item.key not in ended:
        return item
    old = ended[item.key]
    reason = f"{item.reason}; a waiver of {old.keyid} expired on {old.waiver.expires}"
    return replace(item, reason=reason, remedy=f"Have the waiver renewed (`farm waive`). {item.remedy}")


def statement(contents: Contents, found: Verdict) -> Statement:
    """The statement that is signed about the payload."""
    name = f"{contents.model}/{contents.target}"
    return licences.statement(canonical.to_json(found), name, contents.payload)


def from_statement(found: Statement, name: str) -> Verdict:
    """The verdict in a statement. Raises `FarmError` ATTESTATION_INVALID or SCHEMA_MISMATCH."""
    licences.require_form(found, name)
    return canonical.from_json(Verdict, dict(found.predicate), name=name)


def verdicts(statements: Mapping[str, Statement]) -> dict[Digest, Verdict]:
    """The verdicts among statements (by file), by payload; raises as `from_statement`."""
    return {
        item.subjects[0].digest: from_statement(item, name)
        for name, item in sorted(statements.items())
        if item.predicate_type == licences.LICENCES
    }


def refuse_denied(found: Verdict, day: str, what: str) -> None:
    """Raise `FarmError` LICENCE_DENIED for the worst finding that is open on a day and is a denial."""
    if found.on(day) is Decision.DENY:
        raise refusal(found.open_findings(day), what)


def summary(found: Sequence[Verdict], day: str) -> str:
    """What verdicts say together on a day: "allow", or "review: 3 findings"."""
    worst = max((one.on(day) for one in found), key=lambda item: item.severity, default=Decision.ALLOW)
    count = len({item.key for one in found for item in one.open_findings(day)})
    return worst.value if not count else f"{worst.value}: {count} finding{'s' if count > 1 else ''}"


def require(view: BundleView, statements: Mapping[str, Statement], day: str) -> str:
    """What a release asks: every payload has a verdict that allows it on the day. What was found, for a report.

    Raises `FarmError` LICENCE_DENIED, or LICENCE_REVIEW where somebody has to look, or nobody judged.
    """
    known = verdicts(statements)
    until = []
    for payload in view.payloads:
        what = f"the payload of {payload.target}"
        if payload.digest not in known:
            advice = "Run `farm licences BUNDLE --scan` first."
            raise FarmError(Code.LICENCE_REVIEW, f"nobody judged the licences of {what}", next_step=advice)
        found = known[payload.digest]
        if found.on(day) is not Decision.ALLOW:
            raise refusal(found.open_findings(day), what)
        until += [found.expires] if found.expires else []
    return f"{len(view.payloads)} payloads allowed{f' until {min(until)}' if until else ''}"


def refusal(findings: Sequence[Finding], what: str) -> FarmError:
    """The error of findings, the worst first: it names file, rule and remedy."""
    first = findings[0]
    denied = first.decision is Decision.DENY
    place = f"{first.material} {first.file}".strip()
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return FarmError(
        Code.LICENCE_DENIED if denied else Code.LICENCE_REVIEW,
        f"the licences of {what} {'are refused' if denied else 'want a review'}: {place}",
        f"{first.reason}{more}",
        first.remedy,
        {"file": first.file or first.material, "rule": first.rule, "findings": [item.key for item in findings[:64]]},
    )


def own_terms(
    day: str | None = None,
    *,
    of_policy: Path | None = None,
    licences_of: Iterable[str] = (),
    granted: tuple[Signed, ...] = (),
    tools: Tools | None = None,
) -> Terms:
    """Terms from what a command was given; by default the farm's own policy, and today."""
    chosen = policy.own() if of_policy is None else policy.load(of_policy)
    return Terms(chosen, day or today(), model_licences(licences_of), granted, tools)
