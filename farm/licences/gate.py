"""The gate: a verdict for a payload, the refusal of a bundle, and what a bundle's signed verdicts say on a day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from containers import image
from containers.image import pins
from farm.licences import materials, waivers
from farm.licences.materials import Contents
from farm.licences.waivers import Foreign, Signed
from kernelfarm import canonical, digest
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

_SHORT = 12
_RENEW = "Have the waiver renewed (`farm waive`) and judge again. "


@dataclass(frozen=True, slots=True)
class Terms:
    """By what the gate judges. `licences`: SPDX expression of a model by its name, "" for every other model.

    `tools` None: nothing is scanned now, recorded scans count. `day`: the ISO date on which waivers must be good.
    `foreign` waivers are only told of.
    """

    policy: Policy
    day: str
    licences: Mapping[str, str]
    waivers: tuple[Signed, ...] = ()
    tools: Tools | None = None
    foreign: tuple[Foreign, ...] = ()


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


def verdict(
    contents: Contents, terms: Terms, home: Home, store: ContentStore, made_in: Digest | None = None
) -> Verdict:
    """Judge a payload that was compiled in an image, or in none. The packages judged are those of today's lock: where
    that is not known to give this very image, somebody has to look.

    Scans what nobody scanned yet where `terms` have a scanner; raises as `scan.scan`.
    """
    licence = terms.licences.get(contents.model, terms.licences.get("", ""))
    found = materials.materials(contents, licence, pins.load().packages, store)
    if made_in is not None:
        ours = image.find(home)
        found.append(materials.of_image(made_in, None if ours is None else ours.digest))
    scans, scanner = _scans(contents, terms.tools, home)
    made = judge(found, scans, terms.policy, scanner=scanner, waivers=waivers.good(terms.waivers, terms.day))
    ended = waivers.over(terms.waivers, terms.day)
    foreign = {item.finding: item for item in terms.foreign}
    return replace(made, findings=tuple(_with_others(_with_ended(item, ended), foreign) for item in made.findings))


def _scans(contents: Contents, tools: Tools | None, home: Home) -> tuple[Mapping[Digest, Scan], Scanner | None]:
    where = materials.places(contents)
    if tools is not None:
        kept = Results(home.cache / SCANS, tools.identity)
        return scan.scan(where, tools, kept, home.create().cache), tools.identity
    recorded = results(home)
    return ({}, None) if recorded is None else (scan.known(where, recorded), recorded.scanner)


def _with_ended(item: Finding, ended: Mapping[Digest, Signed]) -> Finding:
    if item.waiver is not None or item.key not in ended or not ended[item.key].applied().covers(item):
        return item
    old = ended[item.key]
    reason = f"{item.reason}; a waiver of {old.keyid} expired on {old.waiver.expires}"
    return replace(item, reason=reason, remedy=f"{_RENEW}{item.remedy}")


def _with_others(item: Finding, foreign: Mapping[Digest, Foreign]) -> Finding:
    if item.waiver is not None or item.key not in foreign:
        return item
    other = foreign[item.key]
    return replace(
        item, reason=f"{item.reason}; the waiver {other.name} is signed by {other.keyid}, which may not waive"
    )


def statement(contents: Contents, found: Verdict) -> Statement:
    """The statement that is signed about the payload."""
    name = f"{contents.model}/{contents.target}"
    return licences.statement(canonical.to_json(found), name, contents.payload)


def from_statement(found: Statement, name: str) -> Verdict:
    """The verdict in a statement. Raises `FarmError` ATTESTATION_INVALID or SCHEMA_MISMATCH."""
    licences.require_form(found, name)
    return canonical.from_json(Verdict, dict(found.predicate), name=name)


def verdicts(statements: Mapping[str, Statement]) -> dict[Digest, Verdict]:
    """The verdicts that count among statements (by file), by payload; raises as `from_statement`."""
    found = licences.counting(statements)
    return {payload: from_statement(statements[name], name) for payload, name in found.items()}


def refuse_denied(found: Verdict, day: str, what: str) -> None:
    """Raise `FarmError` LICENCE_DENIED for the worst finding that is open on a day and is a denial."""
    if found.on(day) is Decision.DENY:
        raise refusal(found, day, what)


def summary(found: Sequence[Verdict], day: str) -> str:
    """What verdicts say together on a day: "allow", or "review: 3 findings"."""
    worst = max((one.on(day) for one in found), key=lambda item: item.severity, default=Decision.ALLOW)
    count = len({item.key for one in found for item in one.open_findings(day)})
    return worst.value if not count else f"{worst.value}: {count} finding{'s' if count > 1 else ''}"


def counting(policies: Collection[Digest]) -> tuple[Digest, ...]:
    """The policies whose verdicts count where a channel lists these: without any the farm's own. Sorted."""
    return tuple(sorted(policies)) or (policy.own().digest,)


def judged(
    view: BundleView, statements: Mapping[str, Statement], policies: Collection[Digest] = ()
) -> dict[str, Verdict]:
    """The verdicts on all payloads of a bundle, by target. `policies` are those that count, by default the farm's own.

    Raises `FarmError` LICENCE_REVIEW for a payload that nobody judged, or not under one of these: a verdict that is
    taken away, or made by a policy of somebody's own, must not be as good as one that allows.
    """
    wanted = counting(policies)
    known = verdicts(statements)
    found = {}
    for payload in view.payloads:
        what = f"the payload of {payload.target}"
        if payload.digest not in known:
            advice = "Run `farm licences BUNDLE --scan` first."
            raise FarmError(Code.LICENCE_REVIEW, f"nobody judged the licences of {what}", next_step=advice)
        one = known[payload.digest]
        if one.policy not in wanted:
            raise FarmError(
                Code.LICENCE_REVIEW,
                f"the licences of {what} were judged by a policy that does not count here",
                f"its digest is {one.policy}; what counts is {', '.join(wanted)}",
                "Run `farm licences BUNDLE --again` without --licence-policy, or with one that counts.",
                {"policy": one.policy},
            )
        found[payload.target] = one
    return found


def refuse(view: BundleView, statements: Mapping[str, Statement], day: str, policies: Collection[Digest] = ()) -> str:
    """What every release asks: no payload is denied on the day, and each was judged. What was found, for a report.

    Raises `FarmError` LICENCE_DENIED, or as `judged`.
    """
    found = judged(view, statements, policies)
    for target, one in found.items():
        refuse_denied(one, day, f"the payload of {target}")
    return f"{summary(list(found.values()), day)}{_under(found)}"


def require(view: BundleView, statements: Mapping[str, Statement], day: str, policies: Collection[Digest] = ()) -> str:
    """What a careful release asks: every payload is allowed on the day. What was found, for a report.

    Raises `FarmError` LICENCE_DENIED, LICENCE_REVIEW where somebody has to look, or as `judged`.
    """
    found = judged(view, statements, policies)
    for target, one in found.items():
        if one.on(day) is not Decision.ALLOW:
            raise refusal(one, day, f"the payload of {target}")
    until = [one.expires for one in found.values() if one.expires]
    return f"{len(found)} payloads allowed{f' until {min(until)}' if until else ''}{_under(found)}"


def _under(found: Mapping[str, Verdict]) -> str:
    names = sorted({digest.hex_of(one.policy)[:_SHORT] for one in found.values()})
    return f" by policy {', '.join(names)}" if names else ""


def refusal(found: Verdict, day: str, what: str) -> FarmError:
    """The error of what is open on a day, by the worst finding: file, rule and remedy, and the waiver that ended."""
    findings = found.open_findings(day)
    first = findings[0]
    ended = next((item for item in found.waivers if item.digest == first.waiver), None)
    denied = first.decision is Decision.DENY
    place = f"{first.material} {first.file}".strip()
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return FarmError(
        Code.LICENCE_DENIED if denied else Code.LICENCE_REVIEW,
        f"the licences of {what} {'are refused' if denied else 'want a review'}: {place}",
        f"{first.reason}{'' if ended is None else f'; a waiver of {ended.keyid} expired on {ended.expires}'}{more}",
        f"{'' if ended is None else _RENEW}{first.remedy}",
        {"file": first.file or first.material, "rule": first.rule, "findings": [item.key for item in findings[:64]]},
    )


def own_terms(
    day: str | None = None,
    *,
    of_policy: Path | None = None,
    licences_of: Iterable[str] = (),
    granted: tuple[Signed, ...] = (),
    tools: Tools | None = None,
    foreign: tuple[Foreign, ...] = (),
) -> Terms:
    """Terms from what a command was given; by default the farm's own policy, and today."""
    chosen = policy.own() if of_policy is None else policy.load(of_policy)
    return Terms(chosen, day or today(), model_licences(licences_of), granted, tools, foreign)
