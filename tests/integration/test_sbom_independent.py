"""The bills of materials are valid for somebody else too: CycloneDX's own JavaScript library with its own schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm import pinned
from kernelfarm import digest
from sbom import document, image
from tests.support import bundles, sbom_validator
from tests.support.product import tiny

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def validator() -> Path:
    return sbom_validator.installed()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


def wrong_kind(bill: dict[str, Any]) -> None:
    bill["components"][0]["type"] = "nonsense"


def wrong_hash(bill: dict[str, Any]) -> None:
    bill["components"][0]["hashes"] = [{"alg": "SHA-256", "content": "abc"}]


def unknown_field(bill: dict[str, Any]) -> None:
    bill["surprise"] = True


def no_workflow_id(bill: dict[str, Any]) -> None:
    del bill["formulation"][0]["workflows"][0]["uid"]


@pytest.mark.parametrize("change", [wrong_kind, wrong_hash, unknown_field, no_workflow_id])
def test_it_refuses_what_is_wrong(validator: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    folder = bundles.compiled(tmp_path / "payload", "x86-64-v4")
    bill = json.loads(document.describe(folder, bundles.making("x86-64-v4")))
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(bill))
    change(bill)
    bad.write_text(json.dumps(bill))

    (line,) = sbom_validator.complaints(validator, [good, bad])

    assert line.startswith(f"{bad}: ")


def test_it_accepts_the_bills_of_a_real_bundle(validator: Path, shared: Path) -> None:
    built = tiny(shared)
    bills = [path for path in built.bundle.rglob("*") if path.is_file() and _is_bill(path)]

    assert len(bills) == 2
    assert sbom_validator.complaints(validator, bills) == []


def test_it_accepts_the_bill_of_the_image(validator: Path, tmp_path: Path) -> None:
    bill = document.of_bill(image.bill(digest.of_bytes(b"image"), pinned.lock()))
    (tmp_path / "image.json").write_bytes(bill)

    assert sbom_validator.complaints(validator, [tmp_path / "image.json"]) == []


def _is_bill(path: Path) -> bool:
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("bomFormat") == "CycloneDX"
