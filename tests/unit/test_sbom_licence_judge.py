"""Materials, scans and a policy in, a verdict out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kernelfarm import canonical, digest
from sbom.licence import judge as judging
from sbom.licence import policy
from sbom.licence.judge import judge
from sbom.licence.nouns import (
    Applied,
    Decision,
    Finding,
    Match,
    Material,
    Outcome,
    Piece,
    Role,
    Scan,
    Verdict,
)

OWN = policy.own()


def piece(name: str, text: bytes) -> Piece:
    return Piece(name, digest.of_bytes(text), len(text))


def material(licence: str = "Apache-2.0", *pieces: Piece, role: Role = Role.LINKED, name: str = "runtime") -> Material:
    return Material(name, "1.0", f"pkg:pypi/{name}@1.0", role, licence, "its metadata", pieces)


def scan(of: Piece, expression: str = "", outcome: Outcome = Outcome.DONE, why: str = "") -> Scan:
    matches = (Match(expression, "gpl-3.0_1.RULE", 7, 100),) if expression else ()
    return Scan(of.digest, outcome, expression, matches, why)


def the_finding(verdict: Verdict) -> Finding:
    (found,) = verdict.findings
    return found


def test_a_file_without_a_text_of_its_own_is_under_what_its_material_declares() -> None:
    source = piece("runtime/src/api.c", b"int x;")
    verdict = judge([material("Apache-2.0", source)], {source.digest: scan(source)}, OWN)
    assert verdict.decision is Decision.ALLOW
    assert verdict.findings == ()
    assert verdict.materials[0].concluded == "Apache-2.0"


def test_a_planted_gpl_file_is_denied_and_file_rule_and_remedy_are_named() -> None:
    source = piece("runtime/src/planted.c", b"/* GPL */")
    verdict = judge([material("Apache-2.0", source)], {source.digest: scan(source, "GPL-3.0-or-later")}, OWN)
    found = the_finding(verdict)
    assert (verdict.decision, found.decision) == (Decision.DENY, Decision.DENY)
    assert (found.file, found.rule) == ("runtime/src/planted.c", 'linked.deny "GPL-*"')
    assert found.reason == 'ScanCode reads GPL-3.0-or-later, line 7; the policy says linked.deny "GPL-*"'
    assert found.remedy.startswith("Take it out of the link")
    assert verdict.materials[0].concluded == "Apache-2.0 AND GPL-3.0-or-later"


@pytest.mark.parametrize(
    ("outcome", "why", "reason"),
    [
        (Outcome.TIMEOUT, "ScanCode took longer than 2 s", "ScanCode took longer than 2 s"),
        (Outcome.FAILED, "ScanCode ended with signal 9", "ScanCode ended with signal 9"),
        (Outcome.TOO_LARGE, "", "too large"),
    ],
)
def test_a_scan_that_did_not_end_wants_a_review(outcome: Outcome, why: str, reason: str) -> None:
    huge = piece("zig/lib/huge.zig", b"huge")
    verdict = judge([material("MIT", huge)], {huge.digest: scan(huge, outcome=outcome, why=why)}, OWN)
    found = the_finding(verdict)
    assert (verdict.decision, found.file, found.rule) == (Decision.REVIEW, "zig/lib/huge.zig", outcome.value)
    assert reason in found.reason
    assert "--timeout" in found.remedy


def test_files_that_nobody_scanned_want_a_review_once_for_all() -> None:
    pieces = [piece(f"runtime/src/{number}.c", bytes([number])) for number in range(5)]
    verdict = judge([material("MIT", *pieces)], {}, OWN)
    found = the_finding(verdict)
    assert (found.decision, found.rule, found.file) == (Decision.REVIEW, judging.UNSCANNED, "")
    assert found.reason.startswith("5 of its files were not scanned: runtime/src/0.c, ")


@pytest.mark.parametrize(
    ("licence", "decision", "rule"),
    [
        ("", Decision.REVIEW, judging.UNKNOWN),
        ("see COPYING!", Decision.REVIEW, judging.INVALID),
        ("LicenseRef-x", Decision.REVIEW, policy.UNLISTED),
        ("GPL-3.0-only", Decision.DENY, 'imported.deny "GPL-*"'),
    ],
)
def test_declared_licences_that_are_not_simply_allowed(licence: str, decision: Decision, rule: str) -> None:
    found = the_finding(judge([material(licence, role=Role.IMPORTED)], {}, OWN))
    assert (found.decision, found.rule) == (decision, rule)


def test_an_unknown_model_licence_wants_a_review_that_says_what_to_give() -> None:
    found = the_finding(judge([material("", role=Role.MODEL, name="cls")], {}, OWN))
    assert found.decision is Decision.REVIEW
    assert "--model-licence" in found.remedy


def test_the_order_of_what_is_given_means_nothing() -> None:
    pieces = [piece(f"f{number}.c", bytes([number])) for number in range(8)]
    scans = {one.digest: scan(one, "GPL-2.0-only" if one.size else "") for one in pieces}
    every = [material("MIT", one, name=f"m{number}") for number, one in enumerate(pieces)]
    first = canonical.encode(judge(every, scans, OWN))
    for seed in range(5):
        draw = random.Random(seed)
        mixed = dict(draw.sample(sorted(scans.items()), len(scans)))
        assert canonical.encode(judge(draw.sample(every, len(every)), mixed, OWN)) == first


def test_a_verdict_is_the_same_after_writing_and_reading() -> None:
    source = piece("a.c", b"a")
    verdict = judge([material("MIT", source)], {source.digest: scan(source, "GPL-2.0-only")}, OWN)
    assert canonical.decode(Verdict, canonical.encode(verdict)) == verdict


def waived(found: Finding, expires: str) -> Applied:
    return Applied(
        digest.of_bytes(expires.encode()),
        "keyid",
        expires,
        "a macro's name",
        found.key,
        "{}",
        found.material,
        found.file,
        found.expression,
        found.rule,
    )


def test_a_waiver_covers_its_finding_until_it_expires() -> None:
    source = piece("macro.c", b"#define GPL2")
    materials, scans = [material("MIT", source)], {source.digest: scan(source, "GPL-2.0-only")}
    found = the_finding(judge(materials, scans, OWN))

    verdict = judge(materials, scans, OWN, waivers=[waived(found, "2027-01-31")])

    assert (verdict.decision, verdict.strict, verdict.expires) == (Decision.ALLOW, Decision.DENY, "2027-01-31")
    assert verdict.on("2027-01-30") is Decision.ALLOW
    assert verdict.open_findings("2027-01-30") == ()
    assert verdict.on("2027-01-31") is Decision.DENY
    assert [item.file for item in verdict.open_findings("2027-01-31")] == ["macro.c"]


def test_a_waiver_covers_no_other_content_licence_or_file() -> None:
    before, after = piece("macro.c", b"#define GPL2"), piece("macro.c", b"#define GPL2 2")
    found = the_finding(judge([material("MIT", before)], {before.digest: scan(before, "GPL-2.0-only")}, OWN))
    waiver = waived(found, "2027-01-31")
    for other, text in ((after, "GPL-2.0-only"), (before, "GPL-3.0-only"), (piece("b.c", b"b"), "GPL-2.0-only")):
        verdict = judge([material("MIT", other)], {other.digest: scan(other, text)}, OWN, waivers=[waiver])
        assert (verdict.decision, verdict.waivers) == (Decision.DENY, ())


def test_of_two_waivers_the_one_that_lasts_longer_counts() -> None:
    source = piece("macro.c", b"#define GPL2")
    materials, scans = [material("MIT", source)], {source.digest: scan(source, "GPL-2.0-only")}
    found = the_finding(judge(materials, scans, OWN))
    verdict = judge(materials, scans, OWN, waivers=[waived(found, "2027-05-01"), waived(found, "2027-01-31")])
    assert verdict.expires == "2027-05-01"
    assert len(verdict.waivers) == 1


CLS = Material("cls", "", "", Role.MODEL, "GPL-3.0-only", "--model-licence", (piece("weights.bin", b"1"),))
WHEEL = Material("turbo", "1.0", "", Role.IMPORTED, "GPL-3.0-only", "", content=digest.of_bytes(b"wheel"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CLS, replace(CLS, pieces=(piece("weights.bin", b"2"),))),
        (replace(CLS, refused=True, licence=""), replace(CLS, refused=True, licence="", pieces=(piece("w", b"2"),))),
        (WHEEL, replace(WHEEL, version="1.1")),
        (WHEEL, replace(WHEEL, content=digest.of_bytes(b"another wheel"))),
    ],
    ids=["other weights of the model", "another object of that name", "a newer wheel", "another wheel of that name"],
)
def test_a_waiver_of_a_whole_material_covers_no_other_bytes_or_version(before: Material, after: Material) -> None:
    (found,) = (item for item in judge([before], {}, OWN).findings if item.rule != judging.UNSCANNED)
    waiver = waived(found, "2027-01-31")
    covered = judge([before], {}, OWN, waivers=[waiver])
    assert [item.finding for item in covered.waivers] == [found.key]
    assert judge([after], {}, OWN, waivers=[waiver]).waivers == ()


@pytest.mark.parametrize("field", ["material", "file", "expression", "rule"])
def test_a_waiver_whose_words_are_not_those_of_its_finding_covers_nothing(field: str) -> None:
    """Its signer read them, not the digest."""
    source = piece("macro.c", b"#define GPL2")
    materials, scans = [material("MIT", source)], {source.digest: scan(source, "GPL-2.0-only")}
    waiver = waived(the_finding(judge(materials, scans, OWN)), "2027-01-31")
    verdict = judge(materials, scans, OWN, waivers=[replace(waiver, **{field: "harmless"})])
    assert (verdict.decision, verdict.waivers) == (Decision.DENY, ())


def test_a_recorded_scan_that_is_no_expression_wants_a_review_of_its_file() -> None:
    source = piece("zig/lib/libc/include/a.h", b"a")
    broken = replace(scan(source, "MIT AND ()"), matches=(Match("MIT AND", "spdx-license-identifier-x", 1, 100),))
    found = the_finding(judge([material("MIT", source)], {source.digest: broken}, OWN))
    assert (found.decision, found.rule, found.file) == (Decision.REVIEW, judging.INVALID, source.name)


def test_a_doubt_whether_it_is_what_was_used_wants_a_review() -> None:
    found = the_finding(judge([replace(material("MIT"), doubt="it may be another")], {}, OWN))
    assert (found.decision, found.rule, found.reason) == (Decision.REVIEW, judging.UNSURE, "it may be another")
