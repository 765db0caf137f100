"""Statements: what provenance holds, and that nothing in it can be missing, wrong or hidden."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from kernelfarm import canonical, digest, nouns
from kernelfarm.errors import Code, FarmError
from signing.statement import BundleSignature, Provenance, Statement, Subject
from tests.support import bundles

PAYLOAD = digest.of_bytes(b"payload")
PROVENANCE = bundles.provenance("x86-64-v4")


def test_provenance_is_slsa_v1_and_names_the_payload() -> None:
    value = PROVENANCE.statement(PAYLOAD).to_json()

    assert value["_type"] == "https://in-toto.io/Statement/v1"
    assert value["predicateType"] == "https://slsa.dev/provenance/v1"
    assert value["subject"] == [{"name": "cls/x86-64-v4", "digest": {"sha256": digest.hex_of(PAYLOAD)}}]


def test_the_external_parameters_are_all_that_a_user_chose() -> None:
    definition = PROVENANCE.statement(PAYLOAD).predicate["buildDefinition"]

    assert definition["externalParameters"] == {
        "model": {
            "schema": "model/1",
            "name": "cls",
            "digest": bundles.MODEL.digest,
            "size": 7,
            "external": [],
            "before": digest.of_bytes(b"a model of somebody"),
        },
        "target": {"name": "x86-64-v4", "digest": PROVENANCE.recipe.target_digest},
        "options": {"schema": "options/1", "shapes": [["x", [1, 3, 48, 192]]]},
    }


def test_the_dependencies_are_sources_model_and_tools_by_digest() -> None:
    listed = PROVENANCE.statement(PAYLOAD).predicate["buildDefinition"]["resolvedDependencies"]

    assert [item["name"] for item in listed] == ["compiler", "runtime", "model:cls", "tool:ziglang"]
    assert listed[0]["digest"] == {"sha256": digest.hex_of(digest.of_bytes(b"compiler"))}
    assert listed[3]["annotations"] == {"digestOf": "installed files", "version": "0.17.0"}


def test_external_data_of_a_model_is_a_dependency() -> None:
    data = nouns.ModelFile("weights.bin", digest.of_bytes(b"w"), 1)
    model = dataclasses.replace(bundles.MODEL, external=(data,))
    made = bundles.provenance("x86-64-v4", model=model)

    listed = made.statement(PAYLOAD).predicate["buildDefinition"]["resolvedDependencies"]

    assert "model-data:weights.bin" in [item["name"] for item in listed]
    assert Provenance.from_statement(made.statement(PAYLOAD), "f") == made


def test_the_rules_of_a_user_are_a_parameter_and_a_dependency() -> None:
    rules = nouns.RuleSet(digest.of_bytes(b"rules"), 5)
    recipe = dataclasses.replace(PROVENANCE.recipe, options=nouns.Options(rules=rules))
    made = dataclasses.replace(PROVENANCE, recipe=recipe)

    definition = made.statement(PAYLOAD).predicate["buildDefinition"]

    assert definition["externalParameters"]["options"]["rules"] == {"digest": rules.digest, "size": 5}
    (listed,) = (item for item in definition["resolvedDependencies"] if item["name"] == "fusion-rules")
    assert listed["digest"] == {"sha256": digest.hex_of(rules.digest)}
    assert Provenance.from_statement(made.statement(PAYLOAD), "f") == made


def test_keys_execution_and_the_security_mode_are_internal_parameters() -> None:
    inner = PROVENANCE.statement(PAYLOAD).predicate["buildDefinition"]["internalParameters"]

    recipe = nouns.recipe_key(PROVENANCE.recipe)
    assert inner["recipeKey"] == recipe
    assert inner["executionKey"] == nouns.execution_key(recipe, PROVENANCE.execution)
    assert inner["securityMode"] == "process, unsealed"


def test_the_builder_has_one_identity_per_security_mode() -> None:
    run = PROVENANCE.statement(PAYLOAD).predicate["runDetails"]

    assert run["builder"] == {"id": "urn:kernel-farm:builder:process:1"}
    assert run["metadata"] == {"startedOn": "2026-11-29T17:00:00Z", "kernelFarm_host": {"cores": "2", **bundles.WORKER}}


def test_an_unknown_security_mode_is_never_stated() -> None:
    with pytest.raises(FarmError) as caught:
        dataclasses.replace(PROVENANCE, security_mode="vault").statement(PAYLOAD)

    assert caught.value.code is Code.INTERNAL


@pytest.mark.parametrize(
    "execution",
    [
        nouns.Execution("sha256:" + "1" * 64, "x86_64", "docker"),
        nouns.Execution("sha256:" + "1" * 64, "x86_64", "process"),
    ],
)
def test_a_security_mode_is_that_of_the_runner(execution: nouns.Execution) -> None:
    with pytest.raises(FarmError):
        dataclasses.replace(PROVENANCE, execution=execution).statement(PAYLOAD)


@pytest.mark.parametrize("name", ["docker", "bubblewrap"])
def test_a_sandbox_is_stated_with_its_image(name: str) -> None:
    image = "sha256:" + "1" * 64
    made = dataclasses.replace(PROVENANCE, execution=nouns.Execution(image, "x86_64", name), security_mode=name)
    inner = made.statement(PAYLOAD).predicate["buildDefinition"]["internalParameters"]

    assert (inner["securityMode"], inner["execution"]["image"]) == (f"{name}, sealed", image)
    assert Provenance.from_statement(made.statement(PAYLOAD), "f") == made
    with pytest.raises(FarmError):
        dataclasses.replace(made, execution=nouns.Execution(None, "x86_64", name)).statement(PAYLOAD)


def test_a_recipe_of_another_model_is_never_stated() -> None:
    other = nouns.Model("other", digest.of_bytes(b"other"), 5)

    with pytest.raises(FarmError):
        dataclasses.replace(PROVENANCE, model=other).statement(PAYLOAD)


def test_reading_gives_back_what_was_stated() -> None:
    assert Provenance.from_statement(PROVENANCE.statement(PAYLOAD), "f") == PROVENANCE


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in items for path in paths_of(item, (*at, key)))]


def without(value: Any, path: tuple[Any, ...]) -> Any:
    copy = json.loads(canonical.dumps(value))
    place = copy
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return copy


PREDICATE = json.loads(canonical.dumps(dict(PROVENANCE.statement(PAYLOAD).predicate)))
OPTIONAL = [("runDetails", "metadata", "startedOn"), ("runDetails", "metadata", "kernelFarm_host")]
NEEDED = [path for path in paths_of(PREDICATE) if path and path not in OPTIONAL]


@pytest.mark.parametrize("path", NEEDED, ids=lambda path: "/".join(map(str, path)))
def test_a_provenance_that_lacks_any_part_is_refused(path: tuple[Any, ...]) -> None:
    statement = Statement((Subject("cls/x86-64-v4", PAYLOAD),), "x", without(PREDICATE, path))

    with pytest.raises(FarmError) as caught:
        Provenance.from_statement(statement, "f")

    assert caught.value.code is Code.ATTESTATION_INVALID


@pytest.mark.parametrize("path", OPTIONAL, ids=lambda path: path[-1])
def test_facts_of_one_run_may_be_left_out(path: tuple[Any, ...]) -> None:
    statement = Statement(
        (Subject("cls/x86-64-v4", PAYLOAD),), "https://slsa.dev/provenance/v1", without(PREDICATE, path)
    )

    assert Provenance.from_statement(statement, "f").recipe == PROVENANCE.recipe


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("buildDefinition", "internalParameters", "recipeKey"), "sha256:" + "0" * 64),
        (("buildDefinition", "internalParameters", "executionKey"), "sha256:" + "0" * 64),
        (("buildDefinition", "internalParameters", "securityMode"), "sealed"),
        (("buildDefinition", "externalParameters", "extra"), 1),
        (("buildDefinition", "buildType"), "urn:other"),
        (("runDetails", "builder", "id"), "urn:kernel-farm:builder:docker:1"),
        (("runDetails", "metadata", "finishedOn"), 3),
    ],
)
def test_a_provenance_whose_parts_do_not_fit_is_refused(path: tuple[str, ...], value: Any) -> None:
    copy = json.loads(canonical.dumps(PREDICATE))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    with pytest.raises(FarmError) as caught:
        Provenance.from_statement(Statement((Subject("cls/x86-64-v4", PAYLOAD),), "x", copy), "f")

    assert caught.value.code is Code.ATTESTATION_INVALID


def test_a_signature_names_the_index_and_lists_the_payloads() -> None:
    bundle = digest.of_bytes(b"index")

    value = BundleSignature("cls", None, (Subject("x86-64-v4", PAYLOAD),)).statement(bundle).to_json()

    assert value["subject"] == [{"name": "cls", "digest": {"sha256": digest.hex_of(bundle)}}]
    assert value["predicateType"] == "urn:kernel-farm:bundle-signature:1"
    assert value["predicate"] == {
        "schema": "bundle-signature/1",
        "name": "cls",
        "version": None,
        "payloads": [{"target": "x86-64-v4", "digest": PAYLOAD}],
    }
