"""A tag with an exception and the old notice below it are one licence; everything else that a file says counts."""

from __future__ import annotations

import pytest

from kernelfarm import digest
from sbom.licence import policy
from sbom.licence.judge import judge
from sbom.licence.nouns import MOST_MATCHES, Decision, Match, Material, Outcome, Piece, Role, Scan
from sbom.licence.reading import expression_of

HEADER = "zig/lib/libc/include/any-linux-any/asm/auxvec.h"
UAPI, GPL = "GPL-2.0-only WITH Linux-syscall-note", "GPL-2.0-only"
TAG = Match(UAPI, "spdx-license-identifier-gpl_2_0_with_linux_syscall_exception_gpl-1ebb27e4", 1, 100)
NOTICE = Match(GPL, "gpl-2.0_204.RULE", 5, 100)


def scan(*matches: Match) -> Scan:
    said = " AND ".join(dict.fromkeys(match.expression for match in matches))
    return Scan(digest.of_bytes(b"header"), Outcome.DONE, said, matches)


def at(line: int, expression: str = GPL, rule: str = "gpl-2.0_204.RULE") -> Match:
    return Match(expression, rule, line, 100)


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        ((), ""),
        ((TAG,), UAPI),
        ((TAG, NOTICE), UAPI),
        ((TAG, NOTICE, at(30, "MIT", "mit.RULE")), f"{UAPI} AND MIT"),
    ],
    ids=["no text", "the tag alone", "the notice right below", "another licence further down"],
)
def test_the_notice_below_a_tag_repeats_it(matches: tuple[Match, ...], expected: str) -> None:
    assert sorted(expression_of(scan(*matches), HEADER).split(" AND ")) == sorted(expected.split(" AND "))


@pytest.mark.parametrize(
    "matches",
    [
        (NOTICE,),
        (TAG, at(10)),
        (TAG, at(5, "GPL-2.0-or-later")),
        (TAG, at(5, "GPL-3.0-only")),
        (at(1, UAPI, "gpl-2.0_and_linux-syscall.RULE"), NOTICE),
        (at(4, UAPI, TAG.rule), NOTICE),
        (TAG, NOTICE, at(40)),
        (at(1, GPL, "spdx-license-identifier-gpl"), NOTICE),
        (TAG, NOTICE, *(at(100 + n, "MIT") for n in range(MOST_MATCHES))),
    ],
    ids=[
        "no tag",
        "a notice of its own, further down",
        "a later version too",
        "another version",
        "a text, no tag",
        "a tag inside the file",
        "a second notice",
        "a tag without an exception",
        "more texts than are on record",
    ],
)
def test_the_gpl_counts_everywhere_else(matches: tuple[Match, ...]) -> None:
    one = scan(*matches)
    material = Material("headers", "", "", Role.LINKED, UAPI, "", (Piece(HEADER, one.digest, 6),))

    verdict = judge([material], {one.digest: one}, policy.own())

    assert verdict.decision is Decision.DENY
    assert verdict.findings[0].rule == 'linked.deny "GPL-*"'


@pytest.mark.parametrize(
    ("file", "exception", "licence"),
    [
        ("runtime/src/api.c", "Linux-syscall-note", GPL),
        ("zig/lib/std/mem.zig", "Linux-syscall-note", GPL),
        (HEADER, "GCC-exception-3.1", "GPL-3.0-or-later"),
        ("runtime/src/api.c", "GCC-exception-3.1", "GPL-3.0-or-later"),
    ],
    ids=["our own file", "another file of zig", "another exception", "another exception in our own file"],
)
def test_the_rule_is_for_headers_of_linux_and_their_exception_alone(file: str, exception: str, licence: str) -> None:
    one = scan(at(1, f"{licence} WITH {exception}", TAG.rule), at(5, licence))
    material = Material("x", "", "", Role.LINKED, "MIT", "", (Piece(file, one.digest, 6),))

    verdict = judge([material], {one.digest: one}, policy.own())

    assert (verdict.decision, verdict.findings[0].rule) == (Decision.DENY, 'linked.deny "GPL-*"')
