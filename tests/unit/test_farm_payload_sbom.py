"""The bill of materials in a payload: `farm verify` reads it again and holds it against the payload's own bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm import payload_check
from farm.bundle import PayloadInput, write_bundle
from kernelfarm import canonical, oci_bundle
from kernelfarm.errors import Code, FarmError
from sbom import document
from tests.support import bundles

TARGET = "x86-64-v4"


def refused(tmp_path: Path, change: Callable[[dict[str, Any]], object], *, renumber: bool = True) -> FarmError:
    """The error about a bundle whose bill was changed before it was signed."""
    folder = bundles.payload(tmp_path / "payload", TARGET)
    place = folder / "sbom.cdx.json"
    bill = json.loads(place.read_bytes())
    change(bill)
    place.write_bytes(document.numbered(bill) if renumber else canonical.dumps(bill))
    payload = PayloadInput(TARGET, folder, bundles.provenance(TARGET))
    made = write_bundle(tmp_path / "cls", name="cls", version=None, payloads=[payload], signer=bundles.signer())
    view = oci_bundle.read(made.path).require()
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

    assert re.fullmatch(r"\d+ components, 1 sources, urn:uuid:[0-9a-f-]{36}", found)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (other_hash("file/kernels.so"), "gives file/kernels.so the hash 0000"),
        (other_hash("file/kernels.so", 1), "has another SHA-512 of kernels.so"),
        (other_hash("model"), "gives model the hash"),
        (without("file/media-run"), "does not list file/media-run"),
        (without("model"), "does not list model"),
        (one_more, "lists file/extra.so, which the payload does not have"),
        (another_original, "gives the model before scrubbing the hash 0000"),
        (no_original, "gives the model before scrubbing the hash none, its provenance "),
        (one_more_original, "gives the model before scrubbing the hash "),
        (an_original_without_a_hash, "gives the model before scrubbing the hash "),
        (another_recipe, "is of the recipe sha256:0000"),
        (no_recipe, "is of the recipe ?, its provenance of sha256:"),
        (hide_a_link, "does not say that kernels.so holds object/kf_1.o@"),
    ],
)
def test_a_bill_of_something_else_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    error = refused(tmp_path, change)

    assert error.code is Code.PAYLOAD_INCONSISTENT
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
