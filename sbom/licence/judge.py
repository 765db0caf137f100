"""Materials, scans and a policy in, a verdict out. Pure: no clock, no disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kernelfarm.digest import Digest
from kernelfarm.errors import FarmError
from sbom.licence import expression, reading
from sbom.licence.nouns import (
    Applied,
    Decision,
    Finding,
    Judged,
    Material,
    Outcome,
    Piece,
    Role,
    Scan,
    Scanner,
    Verdict,
    worst_first,
)
from sbom.licence.policy import UNLISTED, Policy

UNKNOWN = "unknown"
"""Rule of a finding: nothing says what the licence is."""
UNSCANNED = "unscanned"
"""Rule of a finding: nobody scanned these files."""
INVALID = "invalid"
"""Rule of a finding: what is declared, or was found in a file, is no SPDX expression."""
UNSURE = "unsure"
"""Rule of a finding: what was judged may not be what was used."""

_REMEDIES = {
    Role.LINKED: "Take it out of the link or replace it by something that the policy allows; where it was examined and "
    "is right, have `farm waive` cover it.",
    Role.IMPORTED: "Take the package out of the lock or replace it; where it was examined and is right, have "
    "`farm waive` cover it.",
    Role.TOOL: "Use another tool; where it was examined and is right, have `farm waive` cover it.",
    Role.MODEL: "Ask its owner for a licence that permits to ship it, then name that with --model-licence.",
}
_MODEL_UNKNOWN = "Find out what permits to ship the model and build again with --model-licence EXPRESSION."
_UNSCANNED = "Run `farm licences BUNDLE --scan`; `make scan-tools` installs the scanner."
_UNSURE = "Judge where that version is installed, or build again; where it was examined, have `farm waive` cover it."
_UNFINISHED = "Scan again with a larger --timeout, or read the file and have `farm waive` cover it."


def judge(
    materials: Sequence[Material],
    scans: Mapping[Digest, Scan],
    policy: Policy,
    *,
    scanner: Scanner | None = None,
    waivers: Iterable[Applied] = (),
) -> Verdict:
    """The verdict. `scans` holds what was found, by content; `waivers` those that are good today, by finding.

    The order of anything given means nothing.
    """
    ordered = sorted(materials, key=lambda item: (item.role, item.name, item.version, item.purl))
    found = [(material, _findings(material, scans, policy)) for material in ordered]
    cover = sorted(waivers, key=lambda item: (item.expires, item.digest), reverse=True)
    judged = tuple(_judged(material, findings, scans) for material, findings in found)
    everything = sorted((item for _, items in found for item in items), key=worst_first)
    waived = tuple(_covered(item, cover) for item in everything)
    used = {item.digest: item for item in cover if any(one.waiver == item.digest for one in waived)}
    strict = _worst(item.decision for item in waived)
    decision = _worst(item.decision for item in waived if item.waiver is None)
    return Verdict(
        policy=policy.digest,
        scanner=scanner,
        decision=decision,
        strict=strict,
        expires=min((item.expires for item in used.values()), default=""),
        materials=judged,
        findings=waived,
        waivers=tuple(item for _, item in sorted(used.items())),
    )


def _covered(item: Finding, cover: Sequence[Applied]) -> Finding:
    """With the waiver that lasts longest of those that name it."""
    return replace(item, waiver=next((one.digest for one in cover if one.covers(item)), None))


def _worst(decisions: Iterable[Decision]) -> Decision:
    return max(decisions, key=lambda item: item.severity, default=Decision.ALLOW)


def _judged(material: Material, findings: Sequence[Finding], scans: Mapping[Digest, Scan]) -> Judged:
    scanned = [(piece, scans[piece.digest]) for piece in material.pieces if piece.digest in scans]
    texts = [_read(piece, scan) for piece, scan in scanned]
    usable = [text for text in (material.licence, *texts) if text and _is_expression(text)]
    return Judged(
        name=material.name,
        version=material.version,
        purl=material.purl,
        role=material.role,
        declared=material.licence,
        concluded=expression.join(usable),
        source=material.source,
        files=len(material.pieces),
        decision=_worst(item.decision for item in findings),
    )


def _read(piece: Piece, scan: Scan) -> str:
    """What a file says; as it was recorded, where that is no expression."""
    try:
        return reading.expression_of(scan, piece.name)
    except FarmError:
        return scan.expression


def _is_expression(text: str) -> bool:
    try:
        expression.normal(text)
    except FarmError:
        return False
    return True


def _findings(material: Material, scans: Mapping[Digest, Scan], policy: Policy) -> list[Finding]:
    found = _declared(material, policy)
    if material.doubt:
        found.append(Finding.of(material, None, "", UNSURE, Decision.REVIEW, material.doubt, _UNSURE))
    missing = []
    for piece in material.pieces:
        if not piece.scanned:
            continue
        scan = scans.get(piece.digest)
        if scan is None:
            missing.append(piece)
        else:
            found += _scanned(material, piece, scan, policy)
    if missing:
        names = ", ".join(piece.name for piece in missing[:3]) + (", ..." if len(missing) > 3 else "")
        reason = f"{len(missing)} of its files were not scanned: {names}"
        found.append(Finding.of(material, None, "", UNSCANNED, Decision.REVIEW, reason, _UNSCANNED))
    return found


def _declared(material: Material, policy: Policy) -> list[Finding]:
    own = _REMEDIES[material.role]
    remedy = _MODEL_UNKNOWN if material.role is Role.MODEL else own
    if not material.licence:
        decision = Decision.DENY if material.refused else Decision.REVIEW
        reason = material.note or "nothing declares its licence"
        return [Finding.of(material, None, "", UNKNOWN, decision, reason, remedy)]
    try:
        ruling = policy.of(material.licence, material.role)
    except FarmError as error:
        reason = f"{material.source or 'its metadata'} declares {material.licence!r}: {error.why}"
        return [Finding.of(material, None, material.licence, INVALID, Decision.REVIEW, reason, remedy)]
    if ruling.decision is Decision.ALLOW:
        return []
    reason = f"{material.source or 'its metadata'} declares {material.licence}{_said(ruling.rule, ruling.licence)}"
    return [Finding.of(material, None, material.licence, ruling.rule, ruling.decision, reason, own)]


def _scanned(material: Material, piece: Piece, scan: Scan, policy: Policy) -> list[Finding]:
    if scan.outcome is not Outcome.DONE:
        reason = f"its scan did not come to an end: {scan.why or scan.outcome.value}"
        return [Finding.of(material, piece, "", scan.outcome.value, Decision.REVIEW, reason, _UNFINISHED)]
    read = _read(piece, scan)
    if not read:
        return []  # a file without a text of its own is under what its material declares
    try:
        ruling = policy.of(read, material.role)
    except FarmError as error:
        reason = f"ScanCode reads {read!r}: {error.why}"
        return [Finding.of(material, piece, read, INVALID, Decision.REVIEW, reason, _REMEDIES[material.role])]
    if ruling.decision is Decision.ALLOW:
        return []
    lines = sorted({match.line for match in scan.matches})
    where = f", line {', '.join(map(str, lines[:3]))}" if lines else ""
    reason = f"ScanCode reads {read}{where}{_said(ruling.rule, ruling.licence)}"
    return [Finding.of(material, piece, read, ruling.rule, ruling.decision, reason, _REMEDIES[material.role])]


def _said(rule: str, licence: str) -> str:
    return f"; the policy does not know {licence}" if rule == UNLISTED else f"; the policy says {rule}"
