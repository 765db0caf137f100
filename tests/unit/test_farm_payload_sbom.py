"""The bill of materials in a payload: `farm verify` reads it again and holds it against the payload's own bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm import payload_check
from farm.bundle import PayloadInput, write_bundle
from farm.cli.main import main
from kernelfarm import canonical, digest, oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import ModelFile, RuleSet
from sbom import document
from tests.support import bundles

TARGET = "x86-64-v4"


RULES = RuleSet(digest.of_bytes(b"rules"), 5)
DATA = ModelFile("w.bin", digest.of_bytes(b"external data"), 13)
ZEROS = f"sha256:{64 * '0'}"
Change = Callable[[dict[str, Any]], object]


def signed(tmp_path: Path, change: Change, *, renumber: bool = True, whole: bool = False) -> Path:
    """A bundle whose bill was changed before it was signed; `whole`: made with everything that a recipe may have."""
    model, provenance = bundles.MODEL, bundles.provenance(TARGET)
    if whole:
        model = replace(model, external=(DATA,))
        recipe = replace(provenance.recipe, model_digest=model.identity)
        recipe = replace(recipe, options=replace(recipe.options, rules=RULES))
        provenance = replace(provenance, model=model, recipe=recipe)
    folder = bundles.compiled(tmp_path / "payload", TARGET, model=model)
    bundles.described(folder, TARGET, model=model, made=provenance.recipe)
    place = folder / "sbom.cdx.json"
    bill = json.loads(place.read_bytes())
    change(bill)
    place.write_bytes(document.numbered(bill) if renumber else canonical.dumps(bill))
    payload = PayloadInput(TARGET, folder, provenance)
    return write_bundle(tmp_path / "cls", name="cls", version=None, payloads=[payload], signer=bundles.signer()).path


def refused(tmp_path: Path, change: Change, *, renumber: bool = True) -> FarmError:
    """The error about a bundle whose bill was changed before it was signed."""
    view = oci_bundle.read(signed(tmp_path, change, renumber=renumber)).require()
    with pytest.raises(FarmError) as caught:
        payload_check.require_sbom(view, view.payloads[0])
    assert view.role_of(caught.value.detail["file"]) == f"sbom.cdx.json of {TARGET}"
    return caught.value


def component(bill: dict[str, Any], ref: str) -> dict[str, Any]:
    return next(item for item in bill["components"] if item["bom-ref"] == ref)


def other_hash(ref: str, number: int = 0) -> Callable[[dict[str, Any]], object]:
    def change(bill: dict[str, Any]) -> None:
        value = component(bill, ref)["hashes"][number]
        value["content"] = "0" * len(value["content"])

    return change


def without(ref: str) -> Callable[[dict[str, Any]], object]:
    def change(bill: dict[str, Any]) -> None:
        bill["components"] = [item for item in bill["components"] if item["bom-ref"] != ref]
        bill["dependencies"] = [
            {**item, "dependsOn": [other for other in item.get("dependsOn", []) if other != ref]}
            for item in bill["dependencies"]
            if item["ref"] != ref
        ]

    return change


def another_original(bill: dict[str, Any]) -> None:
    component(bill, "model")["pedigree"]["ancestors"][0]["hashes"][0]["content"] = "0" * 64


def no_original(bill: dict[str, Any]) -> None:
    del component(bill, "model")["pedigree"]


def one_more_original(bill: dict[str, Any]) -> None:
    (first,) = component(bill, "model")["pedigree"]["ancestors"]
    component(bill, "model")["pedigree"]["ancestors"].append({**first, "bom-ref": "another"})


def an_original_without_a_hash(bill: dict[str, Any]) -> None:
    del component(bill, "model")["pedigree"]["ancestors"][0]["hashes"]


def another_recipe(bill: dict[str, Any]) -> None:
    own = bill["metadata"]["component"]["properties"]
    next(item for item in own if item["name"] == "kernel-farm:recipe-key")["value"] = f"sha256:{64 * '0'}"


def no_recipe(bill: dict[str, Any]) -> None:
    del bill["metadata"]["component"]["properties"]


def hide_a_link(bill: dict[str, Any]) -> None:
    entry = next(item for item in bill["dependencies"] if item["ref"] == "file/kernels.so")
    entry["dependsOn"] = []


def one_more(bill: dict[str, Any]) -> None:
    bill["components"].append({**component(bill, "file/kernels.so"), "bom-ref": "file/extra.so", "name": "extra.so"})


def test_a_bill_that_fits_is_described_in_a_line(tmp_path: Path) -> None:
    made = bundles.write(tmp_path / "cls", tmp_path / "work", targets=(TARGET,))
    view = oci_bundle.read(made.path).require()

    found = payload_check.require_sbom(view, view.payloads[0])

    assert re.fullmatch(r"\d+ components, 1 sources, \d+ facts of its provenance, urn:uuid:[0-9a-f-]{36}", found)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (other_hash("file/kernels.so"), "gives file/kernels.so the hash 0000"),
        (other_hash("file/kernels.so", 1), "has another SHA-512 of kernels.so"),
        (other_hash("model"), "gives model the hash"),
        (without("file/media-run"), "does not list file/media-run"),
        (without("model"), "does not list model"),
        (one_more, "lists file/extra.so, which the payload does not have"),
        (another_original, "of the model before scrubbing it says 0000"),
        (no_original, "of the model before scrubbing it says nothing, its provenance says "),
        (one_more_original, "of the model before scrubbing it says "),
        (an_original_without_a_hash, "of the model before scrubbing it says no hash, its provenance says "),
        (another_recipe, "of the payload's recipe-key it says sha256:0000"),
        (no_recipe, "of the payload's abi-version it says nothing, its provenance says 1"),
        (hide_a_link, "does not say that kernels.so holds object/kf_1.o@"),
    ],
)
def test_a_bill_of_something_else_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    error = refused(tmp_path, change)

    assert error.code is Code.PAYLOAD_INCONSISTENT
    assert why in error.why


def at(*path: str | int) -> Callable[[dict[str, Any]], Any]:
    """The part of a bill at a path; a text in a list is the ref or the name of the one that is meant."""

    def walk(bill: dict[str, Any]) -> Any:
        here: Any = bill
        for step in path:
            if isinstance(here, list) and isinstance(step, str):
                here = next(item for item in here if step in (item.get("bom-ref"), item.get("name")))
            else:
                here = here[step]
        return here

    return walk


ROOT: tuple[str | int, ...] = ("metadata", "component")
MODEL: tuple[str | int, ...] = ("components", "model")
TOOL: tuple[str | int, ...] = ("components", "tool/ziglang")
GROUP: tuple[str | int, ...] = ("components", "group/runtime/")
MAKER: tuple[str | int, ...] = ("metadata", "tools", "components", "maker/kernel-farm")
FLOW: tuple[str | int, ...] = ("formulation", 0, "workflows", 0)
GIVEN = (*FLOW, "inputs", 1, "parameters")
VERSION = "000000000000"
FIELDS: list[tuple[tuple[str | int, ...], str]] = [
    ((*ROOT, "name"), "cls/armv7"),
    ((*ROOT, "version"), VERSION),
    ((*ROOT, "purl"), f"pkg:generic/kernel-farm/cls@{VERSION}?target={TARGET}"),
    ((*ROOT, "purl"), "pkg:generic/kernel-farm/other@ROOT?target=x86-64-v4"),
    ((*ROOT, "purl"), "pkg:generic/kernel-farm/cls@ROOT?target=armv7"),
    ((*ROOT, "properties", "kernel-farm:abi-version", "value"), "2"),
    ((*ROOT, "properties", "kernel-farm:ir-version", "value"), "9.0.0"),
    ((*ROOT, "properties", "kernel-farm:recipe-key", "value"), ZEROS),
    ((*ROOT, "properties", "kernel-farm:target", "value"), "armv7"),
    ((*ROOT, "properties", "kernel-farm:target-digest", "value"), ZEROS),
    ((*MODEL, "name"), "other"),
    ((*MODEL, "version"), VERSION),
    ((*MODEL, "purl"), f"pkg:generic/cls?checksum={ZEROS}"),
    ((*MODEL, "purl"), "pkg:generic/other?checksum=MODEL"),
    ((*MODEL, "pedigree", "ancestors", 0, "name"), "other"),
    ((*MODEL, "pedigree", "ancestors", 0, "version"), VERSION),
    ((*MODEL, "pedigree", "ancestors", 0, "hashes", 0, "content"), 64 * "0"),
    ((*MODEL, "components", "model/w.bin", "name"), "v.bin"),
    ((*MODEL, "components", "model/w.bin", "hashes", 0, "content"), 64 * "0"),
    ((*TOOL, "name"), "gcc"),
    ((*TOOL, "version"), "0.16.0"),
    ((*TOOL, "purl"), "pkg:pypi/ziglang@0.16.0"),
    ((*TOOL, "purl"), "pkg:pypi/gcc@0.17.0"),
    ((*TOOL, "properties", "kernel-farm:installed-files", "value"), ZEROS),
    ((*GROUP, "version"), VERSION),
    ((*GROUP, "purl"), f"pkg:generic/kernel-farm-runtime@{VERSION}"),
    ((*MAKER, "version"), VERSION),
    ((*MAKER, "purl"), f"pkg:generic/kernel-farm@{VERSION}"),
    ((*FLOW, "uid"), ZEROS),
    ((*FLOW, "resourceReferences", 0, "ref"), "tool/gcc"),
    ((*GIVEN, "abi-version", "value"), "2"),
    ((*GIVEN, "compiler-source", "value"), ZEROS),
    ((*GIVEN, "fusion-rules", "value"), ZEROS),
    ((*GIVEN, "ir-version", "value"), "9.0.0"),
    ((*GIVEN, "runtime-source", "value"), ZEROS),
    ((*GIVEN, "shape:x", "value"), "1x3x48x320"),
    ((*GIVEN, "target", "value"), "armv7"),
    ((*GIVEN, "target-digest", "value"), ZEROS),
]
"""Every field of a bill that says what its provenance says too, and something else for it."""
MORE: dict[str, tuple[Change, str]] = {
    "a tool more": (
        lambda bill: bill["components"].append({**component(bill, "tool/ziglang"), "bom-ref": "tool/gcc"}),
        "of its tools it says tool/gcc tool/ziglang, its provenance says tool/ziglang",
    ),
    "no tool": (without("tool/ziglang"), "of its tools it says nothing, its provenance says tool/ziglang"),
    "data more": (
        lambda bill: bill["components"].append({"bom-ref": "model/v.bin", "name": "v.bin", "type": "data"}),
        "of the model's data it says model/v.bin model/w.bin, its provenance says model/w.bin",
    ),
    "a group of a tool's": (
        lambda bill: bill["components"].append(
            {"bom-ref": "group/zig/", "name": "z", "type": "library", "version": "1", "purl": "pkg:pypi/ziglang@1"}
        ),
        "of the version of group/zig/ it says 1, its provenance says 0.17.0",
    ),
    "a workflow more": (
        lambda bill: bill["formulation"][0]["workflows"].append(
            {"bom-ref": "workflow/other", "uid": "other", "taskTypes": ["build"]}
        ),
        "of the number of workflows it says 2, its provenance says 1",
    ),
    "no workflow": (
        lambda bill: bill.pop("formulation"),
        "of the number of workflows it says 0, its provenance says 1",
    ),
    "a parameter more": (
        lambda bill: at(*GIVEN)(bill).append({"name": "shape:z", "value": "1"}),
        "of the parameter shape:z of the workflow it says 1, its provenance says nothing",
    ),
    "another parameter": (
        lambda bill: at(*GIVEN, "shape:x")(bill).update(name="shape:a"),
        "of the parameter shape:a of the workflow it says 1x3x48x192, its provenance says nothing",
    ),
    "no tool that was used": (
        lambda bill: at(*FLOW, "resourceReferences")(bill).pop(0),
        "of the tools of the workflow it says nothing, its provenance says tool/ziglang",
    ),
    "no maker": (
        lambda bill: bill["metadata"].pop("tools"),
        "of the version of its farm it says nothing, its provenance says ",
    ),
    "a recipe's key elsewhere": (
        lambda bill: component(bill, "image")["properties"].append({"name": "kernel-farm:recipe-key", "value": ZEROS}),
        f"of the property kernel-farm:recipe-key it says {ZEROS}, its provenance says sha256:",
    ),
}


def verified(folder: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The line of `farm verify` about the payload. Its binaries are text, which is looked at after the bill."""
    key.write_text(bundles.signer().public.pem)
    assert main(["verify", str(folder), "--key", str(key)]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("BAD"))
    return line


@pytest.mark.parametrize(("path", "value"), FIELDS, ids=lambda item: "-".join(map(str, item))[-60:])
def test_a_bill_that_contradicts_its_provenance_is_refused_with_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: tuple[str | int, ...], value: str
) -> None:
    before: list[str] = []

    def change(bill: dict[str, Any]) -> None:
        place = at(*path[:-1])(bill)
        before.append(place[path[-1]])
        own = at(*ROOT)(bill)["version"]
        place[path[-1]] = value.replace("ROOT", own).replace("MODEL", bundles.MODEL.digest)

    line = verified(signed(tmp_path, change, whole=True), tmp_path / "key.pub", capsys)

    assert f"sbom.cdx.json of {TARGET}: of " in line
    told = re.search(r"it says (.*), its provenance says (.*)$", line)
    assert told is not None
    for said, written in ((told[1], value), (told[2], before[0])):
        assert said in written


@pytest.mark.parametrize(("change", "why"), MORE.values(), ids=MORE.keys())
def test_a_bill_with_more_or_less_than_its_provenance_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Change, why: str
) -> None:
    line = verified(signed(tmp_path, change, whole=True), tmp_path / "key.pub", capsys)

    assert f"sbom.cdx.json of {TARGET}: {why}" in line


def test_a_bill_of_all_that_a_recipe_may_have_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = signed(tmp_path, lambda bill: at(*GIVEN, "fusion-rules")(bill), whole=True)

    line = verified(folder, tmp_path / "key.pub", capsys)

    assert "not an ELF file" in line, line  # what comes after the bill
    view = oci_bundle.read(folder).require()
    assert "facts of its provenance" in payload_check.require_sbom(view, view.payloads[0])


TWICE: dict[str, tuple[Callable[[dict[str, Any]], Any], dict[str, Any], str]] = {
    "a recipe's key": (
        at(*ROOT, "properties"),
        {"name": "kernel-farm:recipe-key", "value": ZEROS},
        "kernel-farm:recipe-key twice in the properties of payload",
    ),
    "installed files": (
        at(*TOOL, "properties"),
        {"name": "kernel-farm:installed-files", "value": ZEROS},
        "kernel-farm:installed-files twice in the properties of tool/ziglang",
    ),
    "a parameter": (at(*GIVEN), {"name": "target", "value": "armv7"}, "target twice in the parameters of one place"),
    "a hash": (
        at("components", "file/kernels.so", "hashes"),
        {"alg": "SHA-256", "content": 64 * "0"},
        "SHA-256 twice in the hashes of file/kernels.so",
    ),
    "what the payload needs": (
        at("dependencies"),
        {"ref": "payload", "dependsOn": []},
        "payload twice in the dependencies",
    ),
    "a parameter, in another list": (
        at(*GIVEN[:-2]),
        {"parameters": [{"name": "target", "value": "armv7"}]},
        "target twice in the inputs of sha256:",
    ),
}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("place", "entry", "why"), TWICE.values(), ids=TWICE.keys())
def test_a_bill_that_says_one_thing_twice_is_refused(
    tmp_path: Path, place: Callable[[dict[str, Any]], Any], entry: dict[str, Any], why: str, first: bool
) -> None:
    error = refused(tmp_path, lambda bill: place(bill).insert(0 if first else len(place(bill)), entry))

    assert error.code is Code.SBOM_INVALID
    assert why in error.why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda bill: bill.update(specVersion="1.5"), "it is of version 1.5"),
        (lambda bill: bill.update(surprise=1), "schema of CycloneDX"),
        (
            lambda bill: bill["components"].append(dict(bill["components"][0], version="2")),
            "has no ref, or that of another",
        ),
        (lambda bill: bill["dependencies"].append({"ref": "nobody"}), "what nobody needs, which it does not list"),
        (lambda bill: bill["metadata"].pop("component"), "what it describes"),
        (
            lambda bill: component(bill, "tool/ziglang").update(purl="not a purl"),
            "'not a purl' is not a package URL",
        ),
    ],
)
def test_what_is_no_bill_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str) -> None:
    error = refused(tmp_path, change)

    assert error.code is Code.SBOM_INVALID
    assert why in error.why


def test_a_serial_number_that_is_not_of_the_content_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, lambda bill: bill["components"][0].update(description="other"), renumber=False)

    assert error.code is Code.SBOM_INVALID
    assert "serial number" in error.why
