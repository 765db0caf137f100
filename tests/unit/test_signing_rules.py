"""The rules of trust: a statement is about this very bundle, or it is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from farm.bundle import PayloadInput, write_bundle
from kernelfarm import canonical, digest, nouns, oci_bundle
from kernelfarm.errors import Code, FarmError
from signing import facts, verify
from signing.facts import BundleFacts, PayloadFacts
from signing.statement import Statement, Subject
from tests.support import bundles

V4 = bundles.provenance("x86-64-v4")
PAYLOAD = PayloadFacts(
    "x86-64-v4",
    digest.of_bytes(b"payload"),
    "cls",
    bundles.MODEL.digest,
    V4.recipe.target_digest,
    V4.recipe.ir_version,
    V4.recipe.abi_version,
    bundles.TOOLS,
)
FACTS = BundleFacts(digest.of_bytes(b"index"), "cls", "1.2.0", (PAYLOAD,))


def code_of(statement: Statement, about: BundleFacts = FACTS) -> Code:
    with pytest.raises(FarmError) as caught:
        verify.require_about(statement, about, "f")
    assert caught.value.detail["file"] == "f"
    return caught.value.code


def test_the_signature_and_the_provenance_of_a_bundle_are_about_it() -> None:
    verify.require_about(FACTS.signature(), FACTS, "f")
    verify.require_about(V4.statement(PAYLOAD.digest), FACTS, "f")


@pytest.mark.parametrize(
    "change",
    [
        {"digest": digest.of_bytes(b"another index")},
        {"name": "other"},
        {"version": "1.2.1"},
        {"version": None},
        {"payloads": ()},
        {"payloads": (PAYLOAD, PAYLOAD)},
        {"payloads": (dataclasses.replace(PAYLOAD, digest=digest.of_bytes(b"another")),)},
        {"payloads": (dataclasses.replace(PAYLOAD, target="x86-64-v3"),)},
    ],
)
def test_a_signature_of_anything_else_is_foreign(change: dict[str, object]) -> None:
    signed = dataclasses.replace(FACTS, **change)  # type: ignore[arg-type]

    assert code_of(signed.signature()) is Code.SIGNATURE_FOREIGN


def test_a_provenance_of_another_payload_is_foreign() -> None:
    assert code_of(V4.statement(digest.of_bytes(b"another"))) is Code.SIGNATURE_FOREIGN


def test_a_provenance_of_another_model_or_target_is_foreign() -> None:
    other = nouns.Model("other", digest.of_bytes(b"other"), 5)

    assert code_of(bundles.provenance("x86-64-v4", model=other).statement(PAYLOAD.digest)) is Code.SIGNATURE_FOREIGN
    assert code_of(bundles.provenance("x86-64-v3").statement(PAYLOAD.digest)) is Code.SIGNATURE_FOREIGN


@pytest.mark.parametrize("change", [{"ir_version": "0.2.0"}, {"abi_version": 2}, {"tools": ()}])
def test_a_provenance_by_other_tools_than_the_payload_names_is_foreign(change: dict[str, object]) -> None:
    recipe = dataclasses.replace(V4.recipe, **change)  # type: ignore[arg-type]
    statement = dataclasses.replace(V4, recipe=recipe).statement(PAYLOAD.digest)

    assert code_of(statement) is Code.SIGNATURE_FOREIGN


def test_a_provenance_of_two_things_is_no_provenance() -> None:
    statement = V4.statement(PAYLOAD.digest)
    both = dataclasses.replace(statement, subjects=(*statement.subjects, Subject("x", FACTS.digest)))

    assert code_of(both) is Code.ATTESTATION_INVALID


def test_an_unknown_kind_of_statement_is_refused() -> None:
    assert code_of(Statement((Subject("cls", FACTS.digest),), "urn:other", {})) is Code.ATTESTATION_INVALID


def test_a_bundle_needs_one_signature_and_one_provenance_for_each_payload() -> None:
    signature, provenance = FACTS.signature(), V4.statement(PAYLOAD.digest)
    verify.require_complete({"a": signature, "b": provenance}, FACTS)

    for statements, code in (
        ({"b": provenance}, Code.SIGNATURE_MISSING),
        ({"a": signature}, Code.SIGNATURE_MISSING),
        ({"a": signature, "b": provenance, "c": signature}, Code.ATTESTATION_INVALID),
        ({"a": signature, "b": provenance, "c": provenance}, Code.ATTESTATION_INVALID),
    ):
        with pytest.raises(FarmError) as caught:
            verify.require_complete(statements, FACTS)
        assert caught.value.code is code


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target", {"name": "x86-64-v3", "digest": V4.recipe.target_digest}),
        ("target", {"name": "x86-64-v4"}),
        ("model", {"name": "cls", "digest": "sha256:0"}),
        ("model", None),
        ("model", {"name": "other", "digest": bundles.MODEL.digest}),
        ("tools", None),
        ("tools", {"zig": {"version": "1"}}),
        ("abi_version", "one"),
    ],
)
def test_a_config_that_is_not_this_payload_s_is_refused(tmp_path: Path, key: str, value: object) -> None:
    folder = bundles.payload(tmp_path / "payload", "x86-64-v4")
    config = canonical.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(canonical.dumps(config | {key: value}))

    with pytest.raises(FarmError) as caught:
        write_bundle(
            tmp_path / "cls",
            name="cls",
            version=None,
            payloads=[PayloadInput("x86-64-v4", folder, V4)],
            signer=bundles.signer(),
        )

    assert caught.value.code is Code.PAYLOAD_INCONSISTENT


def test_payloads_of_two_models_are_no_bundle(tmp_path: Path) -> None:
    other = nouns.Model("cls", digest.of_bytes(b"another model of the same name"), 30)
    payloads = [
        PayloadInput(name, bundles.payload(tmp_path / name, name, model=model), bundles.provenance(name, model=model))
        for name, model in (("x86-64-v3", bundles.MODEL), ("x86-64-v4", other))
    ]

    with pytest.raises(FarmError) as caught:
        write_bundle(tmp_path / "cls", name="cls", version=None, payloads=payloads, signer=bundles.signer())

    assert caught.value.code is Code.PAYLOAD_INCONSISTENT


def test_facts_come_from_the_bytes(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work")

    found = facts.facts_of(oci_bundle.read(made.path))

    assert (found.digest, found.name, found.version) == (made.digest, "cls", "1.2.0")
    assert [(item.target, item.digest) for item in found.payloads] == list(made.payloads)
    assert {item.model_digest for item in found.payloads} == {bundles.MODEL.digest}
