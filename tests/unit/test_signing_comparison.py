"""Comparisons as attestations: what they must be about, and how they come into a bundle."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from farm import attest
from kernelfarm import digest, nouns, oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Comparison
from signing import comparison
from signing.statement import Statement
from tests.support import bundles

SIGNER = bundles.signer()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return bundles.write(tmp_path / "cls", tmp_path / "work").path


def compared(bundle: Path, target: str = "x86-64-v3", **other: object) -> Comparison:
    """A rebuild of a payload of the bundle that gave the same bytes."""
    payloads = {item.target: item.digest for item in oci_bundle.read(bundle).payloads}
    made = bundles.provenance(target)
    fields = {"original": payloads[target], "rebuilt": payloads[target], "varied": ("tz", "core"), **other}
    return Comparison(recipe_key=nouns.recipe_key(made.recipe), execution=made.execution, **fields)  # type: ignore[arg-type]


def test_a_comparison_is_added_and_the_bundle_is_still_the_same_one(bundle: Path):
    before = bundles.verified(bundle)

    assert attest.attach(bundle, [comparison.statement(compared(bundle), "cls/x86-64-v3")], SIGNER) == 1

    after = bundles.verified(bundle)
    assert (after.ok, after.digest, after.payloads) == (True, before.digest, before.payloads)
    (line,) = [check for check in after.checks if check.name == "comparison of x86-64-v3"]
    assert line.found.endswith("rebuilt the same, varied core, tz")


def test_the_same_comparison_twice_is_one(bundle: Path):
    made = comparison.statement(compared(bundle), "cls/x86-64-v3")

    assert [attest.attach(bundle, [made], SIGNER) for _ in range(2)] == [1, 0]
    assert len(oci_bundle.read(bundle).attestations) == 4


def test_a_bundle_behind_a_link_gets_its_statement_and_the_link_stays(tmp_path: Path, bundle: Path):
    link = tmp_path / "latest"
    link.symlink_to(bundle)
    assert attest.attach(link, [comparison.statement(compared(bundle), "cls/x86-64-v3")], SIGNER) == 1
    assert link.is_symlink()
    assert len(oci_bundle.read(bundle).attestations) == 4
    assert attest.attach(bundle, [comparison.statement(compared(bundle), "cls/x86-64-v3")], SIGNER) == 0


def test_a_comparison_that_found_a_difference_is_kept_and_said(bundle: Path):
    other = digest.of_bytes(b"another payload")

    attest.attach(bundle, [comparison.statement(compared(bundle, rebuilt=other), "cls/x86-64-v3")], SIGNER)

    report = bundles.verified(bundle)
    assert report.ok
    assert any(f"rebuilt DIFFERENT ({other})" in check.found for check in report.checks)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"original": digest.of_bytes(b"not in the bundle")}, Code.SIGNATURE_FOREIGN),
        ({"name": "other/x86-64-v3"}, Code.SIGNATURE_FOREIGN),
        ({"predicate": {"schema": "comparison/2"}}, Code.ATTESTATION_INVALID),
        ({"more": {"note": "looks fine"}}, Code.ATTESTATION_INVALID),
    ],
    ids=["another payload", "another name", "incomplete", "more than it should say"],
)
def test_a_comparison_of_something_else_is_refused_before_it_is_signed(
    bundle: Path, change: dict[str, object], code: Code
):
    original = change.get("original")
    made = compared(bundle, original=original, rebuilt=original) if original else compared(bundle)
    statement = comparison.statement(made, str(change.get("name", "cls/x86-64-v3")))
    predicate = change.get("predicate", {**statement.predicate, **change.get("more", {})})  # type: ignore[dict-item]
    before = {path.name for path in bundle.rglob("*")}

    with pytest.raises(FarmError) as raised:
        attest.attach(bundle, [dataclasses.replace(statement, predicate=predicate)], SIGNER)

    assert raised.value.code is code
    assert {path.name for path in bundle.rglob("*")} == before


def test_a_comparison_by_another_recipe_does_not_verify(bundle: Path):
    made = dataclasses.replace(compared(bundle), recipe_key=digest.of_bytes(b"another recipe"))

    with pytest.raises(FarmError) as raised:
        attest.attach(bundle, [comparison.statement(made, "cls/x86-64-v3")], SIGNER)

    assert raised.value.code is Code.SIGNATURE_FOREIGN
    assert len(oci_bundle.read(bundle).attestations) == 3


def test_building_the_same_bundle_again_keeps_its_comparisons(bundle: Path, tmp_path: Path):
    attest.attach(bundle, [comparison.statement(compared(bundle), "cls/x86-64-v3")], SIGNER)

    again = bundles.write(bundle, tmp_path / "work again")

    assert again.reused
    assert len(oci_bundle.read(bundle).attestations) == 4


def test_a_bundle_of_another_key_is_not_ours_to_add_to(bundle: Path):
    view = oci_bundle.read(bundle)

    assert attest.is_own(view, SIGNER.public)
    assert not attest.is_own(view, bundles.signer(2).public)


def test_a_comparison_is_read_back_as_it_was(bundle: Path):
    made = compared(bundle)
    statement = Statement.decode(comparison.statement(made, "cls/x86-64-v3").encode(), "f")

    assert comparison.from_statement(statement, "f") == made
