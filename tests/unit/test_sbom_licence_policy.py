"""The licence policy over SPDX expressions."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from kernelfarm.errors import Code, FarmError
from sbom.licence import expression, policy
from sbom.licence.nouns import Decision, Role


@pytest.mark.parametrize(
    ("text", "role", "decision", "rule"),
    [
        ("MIT", Role.LINKED, Decision.ALLOW, 'linked.allow "MIT"'),
        ("mit", Role.LINKED, Decision.ALLOW, 'linked.allow "MIT"'),
        ("GPL-3.0-only", Role.LINKED, Decision.DENY, 'linked.deny "GPL-*"'),
        ("GPL-3.0-only", Role.TOOL, Decision.ALLOW, 'tool.allow "GPL-*"'),
        ("GPL-3.0-only", Role.IMPORTED, Decision.DENY, 'imported.deny "GPL-*"'),
        ("LGPL-3.0-only", Role.IMPORTED, Decision.ALLOW, 'imported.allow "LGPL-*"'),
        ("LGPL-3.0-only", Role.LINKED, Decision.DENY, 'linked.deny "LGPL-*"'),
        (
            "Apache-2.0 WITH LLVM-exception",
            Role.LINKED,
            Decision.ALLOW,
            'linked.allow "Apache-2.0 WITH LLVM-exception"',
        ),
        (
            "GPL-3.0-or-later WITH GCC-exception-3.1",
            Role.LINKED,
            Decision.ALLOW,
            'linked.allow "GPL-3.0-or-later WITH GCC-exception-3.1"',
        ),
        ("GPL-2.0-only WITH LLVM-exception", Role.LINKED, Decision.DENY, 'linked.deny "GPL-*"'),
        ("GPL-2.0-only WITH Classpath-exception-2.0", Role.LINKED, Decision.DENY, 'linked.deny "GPL-*"'),
        (
            "GPL-2.0-only WITH Linux-syscall-note",
            Role.LINKED,
            Decision.ALLOW,
            'linked.allow "GPL-2.0* WITH Linux-syscall-note"',
        ),
        ("LicenseRef-Acme", Role.LINKED, Decision.REVIEW, policy.UNLISTED),
        ("LicenseRef-scancode-unknown-spdx", Role.TOOL, Decision.REVIEW, policy.UNLISTED),
        ("MPL-2.0", Role.LINKED, Decision.REVIEW, 'linked.review "MPL-*"'),
        ("CC-BY-NC-4.0", Role.MODEL, Decision.DENY, 'model.deny "CC-BY-NC-*"'),
    ],
)
def test_a_licence_is_worth_what_its_role_says(text: str, role: Role, decision: Decision, rule: str) -> None:
    ruling = policy.own().of(text, role)
    assert (ruling.decision, ruling.rule) == (decision, rule)


@pytest.mark.parametrize(
    ("text", "decision", "about"),
    [
        ("MIT OR GPL-2.0-only", Decision.ALLOW, "MIT"),
        ("MIT AND GPL-2.0-only", Decision.DENY, "GPL-2.0-only"),
        ("MIT AND LicenseRef-x", Decision.REVIEW, "LicenseRef-x"),
        ("GPL-2.0-only OR LicenseRef-x", Decision.REVIEW, "LicenseRef-x"),
        ("MIT AND (BSD-3-Clause OR AGPL-3.0-only)", Decision.ALLOW, "MIT"),
        ("(MIT AND GPL-2.0-only) OR AGPL-3.0-only", Decision.DENY, "GPL-2.0-only"),
    ],
)
def test_and_takes_the_worst_part_and_or_the_best(text: str, decision: Decision, about: str) -> None:
    ruling = policy.own().of(text, Role.LINKED)
    assert (ruling.decision, ruling.licence) == (decision, about)


@pytest.mark.parametrize(
    "text", ["", "MIT AND", "MIT (", "a/b", "MIT AND AND GPL-2.0-only", "()", "MIT AND ()", "(" * 5000]
)
def test_what_is_no_expression_has_a_code(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        policy.own().of(text, Role.LINKED)
    assert caught.value.code is Code.LICENCE_INVALID


def test_expressions_join_without_repetition() -> None:
    assert expression.join(["MIT", "Apache-2.0", "MIT"]) == "Apache-2.0 AND MIT"
    assert expression.join([]) == ""
    assert expression.licences("MIT OR (Apache-2.0 WITH LLVM-exception)") == ("Apache-2.0 WITH LLVM-exception", "MIT")


def _document(**changes: Any) -> dict[str, Any]:
    return {**tomllib.loads(policy.OWN.read_text(encoding="utf-8")), **changes}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schema": "licence-policy/9"}, "it does not begin with"),
        ({"linkde": {}}, "linkde is unknown"),
        ({"linked": {"forbid": []}}, "linked is no table"),
        ({"linked": {"allow": "MIT"}}, "linked.allow is no list"),
        ({"linked": {"allow": ["MIT"], "deny": ["MIT"]}}, "'MIT' twice"),
        ({"linked": {"allow": ["GPL-3.0-only"], "deny": ["GPL-3.0"]}}, "'GPL-3.0' twice"),
        ({"linked": {"allow": ["GPL-*"], "deny": ["gpl-*"]}}, "'gpl-*' twice"),
        ({"linked": {"allow": ["MIT OR ISC"]}}, "'MIT OR ISC', which is more than one licence"),
        ({"linked": {"deny": ["GPL-* and MIT"]}}, "'GPL-* and MIT', which is more than one licence"),
        ({"linked": {"deny": ["MIT ("]}}, "'MIT (': "),
        ({"linked": {"allow": ["Appache-2.0"]}}, "'Appache-2.0', which SPDX does not list"),
    ],
)
def test_a_faulty_policy_is_refused_with_its_place(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(FarmError) as caught:
        policy.parse(_document(**changes), "mine.toml")
    assert caught.value.code is Code.LICENCE_POLICY_INVALID
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("spelt", "licence"),
    [
        ("GPL-3.0", "GPL-3.0-only"),
        ("gpl-3.0-only", "GPL-3.0-only"),
        ("GPL-3.0+", "GPL-3.0-or-later"),
        ("gpl-*", "GPL-2.0-only"),
        ("apache-2.0 with llvm-exception", "Apache-2.0 WITH LLVM-exception"),
    ],
)
def test_a_licence_in_another_spelling_is_the_same_licence(spelt: str, licence: str) -> None:
    found = policy.parse(_document(linked={"deny": [spelt]}), "mine.toml")
    assert found.of(licence, Role.LINKED).decision is Decision.DENY


def test_the_digest_of_a_policy_is_that_of_its_meaning() -> None:
    document = _document()
    turned = {**document, "linked": {key: value[::-1] for key, value in document["linked"].items()}}
    stricter = {**document, "linked": {**document["linked"], "review": [*document["linked"]["review"], "CECILL-*"]}}
    own = policy.parse(document, "a").digest
    assert policy.parse(turned, "b").digest == own
    assert policy.parse(stricter, "c").digest != own
