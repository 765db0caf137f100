"""The files of a payload must not contradict each other, and the linked bytes decide what the hardening is."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import pytest

from farm import payload_check
from farm.bundle import PayloadInput, write_bundle
from farm.payload import MEDIA_TYPES
from kernelfarm import canonical, device, digest, oci_bundle
from kernelfarm.device import Blob, BlobKind, PayloadHeader, Variant
from kernelfarm.errors import Code, FarmError
from kernelfarm.golden import Case, Golden
from kernelfarm.oci_bundle import BundleView
from tests.support import bundles
from toolchains import gate, products, target
from toolchains.gate import Finding, Product, Report
from toolchains.properties import FLOOR, Property

TARGET = "x86-64-v4"


def bundle_of(tmp_path: Path, change: Callable[[Path], None]) -> BundleView:
    """A whole, signed bundle of a payload that was changed before."""
    folder = bundles.payload(tmp_path / "payload", TARGET)
    change(folder)
    with contextlib.suppress(FarmError):  # of a payload that cannot be described, the bill is that of before
        bundles.described(folder, TARGET)
    payload = PayloadInput(TARGET, folder, bundles.provenance(TARGET))
    made = write_bundle(tmp_path / "cls", name="cls", version=None, payloads=[payload], signer=bundles.signer())
    return oci_bundle.read(made.path).require()


def unchanged(folder: Path) -> None:
    assert folder.is_dir()


def fault_in(view: BundleView) -> FarmError:
    with pytest.raises(FarmError) as caught:
        list(payload_check.check(view, view.payloads[0]))
    return caught.value


def header(folder: Path) -> PayloadHeader:
    return PayloadHeader.from_bytes((folder / "media.hdr").read_bytes())


def rewritten(**fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        made = dataclasses.replace(header(folder), **fields)  # type: ignore[arg-type]
        (folder / "media.hdr").write_bytes(made.to_bytes())

    return change


def another_blob(kind: BlobKind) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        other = Blob(kind, digest.of_bytes(b"other"), 5)
        blobs = tuple(other if blob.kind is kind else blob for blob in header(folder).blobs)
        rewritten(blobs=blobs)(folder)

    return change


def one_blob_more(folder: Path) -> None:
    blobs = (*header(folder).blobs, Blob(BlobKind.KERNELS, digest.of_bytes(b"other"), 5))
    rewritten(blobs=blobs, variants=(Variant(0, 1, 0, 1), Variant(0, 2, len(blobs) - 1, 1)))(folder)


def test_a_payload_whose_header_names_its_own_files_fits(tmp_path: Path) -> None:
    view = bundle_of(tmp_path, unchanged)

    found = dict(islice(payload_check.check(view, view.payloads[0]), 3))

    assert found["files"].startswith(f"{len(MEDIA_TYPES)} files, ")
    assert found["header"] == "names kernels, weights and golden vectors by digest, IR 0.1.0, ABI 1"
    assert found["golden vectors"] == "2 cases of 2 values within 0.0001 + 0.001 * |b|"


@pytest.mark.parametrize(
    "change",
    [
        rewritten(target="x86-64-v3"),
        rewritten(ir_version="0.2.0"),
        rewritten(abi_version=2),
        rewritten(machine=183),
        rewritten(variants=(Variant(0, 400, 0, 1),)),
        rewritten(variants=(Variant(0x3FFFF, 1, 0, 1),)),
        another_blob(BlobKind.KERNELS),
        another_blob(BlobKind.WEIGHTS),
        another_blob(BlobKind.GOLDEN),
        one_blob_more,
    ],
)
def test_a_header_that_names_something_else_is_refused(tmp_path: Path, change: Callable[[Path], None]) -> None:
    view = bundle_of(tmp_path, change)

    error = fault_in(view)

    assert error.code is Code.PAYLOAD_INCONSISTENT
    assert view.role_of(error.detail["file"]) == "media.hdr of x86-64-v4"


def test_a_header_that_is_none_is_refused(tmp_path: Path) -> None:
    def cut(folder: Path) -> None:
        (folder / "media.hdr").write_bytes(b"KFHD")

    view = bundle_of(tmp_path, cut)

    error = fault_in(view)

    assert error.code is Code.DEVICE_FILE_INVALID
    assert view.role_of(error.detail["file"]) == "media.hdr of x86-64-v4"


def golden_vectors(data: bytes) -> Callable[[Path], None]:
    """Other golden vectors, under their right digest."""

    def change(folder: Path) -> None:
        (folder / "golden.bin").write_bytes(data)
        blob = Blob(BlobKind.GOLDEN, digest.of_bytes(data), len(data))
        rewritten(blobs=(*(other for other in header(folder).blobs if other.kind is not BlobKind.GOLDEN), blob))(folder)

    return change


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"KFGV", "shorter than its fixed part"),
        (
            Golden((12,), (12,), (Case((0,), (bytes(12),)),)).to_bytes(),
            "its outputs have 12 bytes, those of the model 8",
        ),
        (
            Golden((12,), (8,), (Case((0,), (bytes(8),)),), absolute=0.999).to_bytes(),
            "its absolute tolerance is 0.999, the product's is 0.0001",
        ),
        (
            Golden((12,), (8,), (Case((0,), (bytes(8),)),), relative=0.0011).to_bytes(),
            "its relative tolerance is 0.0011, the product's is 0.001",
        ),
        (Golden((), (8,), (Case((), (bytes(8),)),)).to_bytes(), "its inputs have no bytes, those of the model 12"),
    ],
)
def test_golden_vectors_that_are_none_or_for_another_model_are_refused(tmp_path: Path, data: bytes, why: str) -> None:
    view = bundle_of(tmp_path, golden_vectors(data))

    error = fault_in(view)

    assert (error.code, error.why) == (Code.DEVICE_FILE_INVALID, why)
    assert view.role_of(error.detail["file"]) == "golden.bin of x86-64-v4"


def test_kernels_that_are_no_linked_code_are_refused_by_file(tmp_path: Path) -> None:
    view = bundle_of(tmp_path, unchanged)

    error = fault_in(view)

    assert error.code is Code.ELF_INVALID
    assert view.role_of(error.detail["file"]) == "kernels.so of x86-64-v4"


def hardening(evidence: str = "NOW", listed: Iterable[Property] = (Property.NOW,)) -> Report:
    findings = tuple(Finding(item, True, evidence) for item in sorted(listed))
    return Report(TARGET, "sha256:x", findings, (), 1, 2, (), (product("libmedia_engine.so"), product("media-run")))


def product(name: str, evidence: str = "NOW") -> Product:
    return Product(name, "sha256:y", (Finding(Property.NOW, True, evidence),), (), 1, 2)


@pytest.fixture
def as_read(monkeypatch: pytest.MonkeyPatch) -> Report:
    """The linked files, which are text here, read as if they were linked code with one property."""
    monkeypatch.setattr(gate, "inspect", lambda path: path)
    monkeypatch.setattr(gate, "require", lambda *_: dataclasses.replace(hardening(), products=()))
    monkeypatch.setattr(products, "inspect", lambda path, _: path)
    monkeypatch.setattr(products, "require", lambda _, path: product(path.name))
    return hardening()


def says(report: Report) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "hardening.json").write_bytes(canonical.dumps(report.to_json()))

    return change


def test_hardening_that_is_what_the_bytes_say_is_accepted(tmp_path: Path, as_read: Report) -> None:
    view = bundle_of(tmp_path, says(as_read))

    assert dict(payload_check.check(view, view.payloads[0]))["hardening"] == (
        "1 properties, as read from kernels.so, 1 from libmedia_engine.so and media-run"
    )


@pytest.mark.usefixtures("as_read")
def test_hardening_that_claims_more_of_a_product_than_its_bytes_is_refused(tmp_path: Path) -> None:
    claimed = dataclasses.replace(hardening(), products=(product("libmedia_engine.so"), product("media-run", "all")))
    view = bundle_of(tmp_path, says(claimed))

    error = fault_in(view)

    assert error.code is Code.PAYLOAD_INCONSISTENT
    assert "libmedia_engine.so or media-run of x86-64-v4 has another hardening" in error.why
    assert view.role_of(error.detail["file"]) == "hardening.json of x86-64-v4"


def test_a_product_that_is_no_linked_code_is_refused_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "inspect", lambda path: path)
    monkeypatch.setattr(gate, "require", lambda *_: hardening())
    view = bundle_of(tmp_path, says(hardening()))

    error = fault_in(view)

    assert error.code is Code.ELF_INVALID
    assert view.role_of(error.detail["file"]) == "libmedia_engine.so of x86-64-v4"


@pytest.mark.usefixtures("as_read")
def test_hardening_that_claims_more_than_the_bytes_is_refused(tmp_path: Path) -> None:
    view = bundle_of(tmp_path, says(hardening("NOW and more")))

    error = fault_in(view)

    assert error.code is Code.PAYLOAD_INCONSISTENT
    assert view.role_of(error.detail["file"]) == "hardening.json of x86-64-v4"


def for_an_older_target(folder: Path) -> None:
    config = canonical.loads((folder / "config.json").read_bytes())
    config["target"]["digest"] = digest.of_bytes(b"the target file of last year")
    (folder / "config.json").write_bytes(canonical.dumps(config))


def of_an_older_target(tmp_path: Path, listed: Iterable[Property]) -> BundleView:
    """A bundle, whole and signed, that was made for a target file of last year and lists these properties."""
    folder = bundles.payload(tmp_path / "payload", TARGET)
    says(hardening(listed=listed))(folder)
    for_an_older_target(folder)
    recipe = dataclasses.replace(bundles.recipe(TARGET), target_digest=digest.of_bytes(b"the target file of last year"))
    bundles.described(folder, TARGET, made=recipe)
    made = write_bundle(
        tmp_path / "cls",
        name="cls",
        version=None,
        payloads=[PayloadInput(TARGET, folder, dataclasses.replace(bundles.provenance(TARGET), recipe=recipe))],
        signer=bundles.signer(),
    )
    return oci_bundle.read(made.path).require()


def test_a_payload_of_an_older_target_file_is_held_against_what_it_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = of_an_older_target(tmp_path, FLOOR)
    asked: list[target.Target] = []
    monkeypatch.setattr(gate, "inspect", lambda path: path)
    monkeypatch.setattr(products, "inspect", lambda path, _: path)
    monkeypatch.setattr(products, "require", lambda _, path: product(path.name))

    def require(found: target.Target, _: Path) -> Report:
        asked.append(found)
        return hardening(listed=FLOOR)

    monkeypatch.setattr(gate, "require", require)

    assert len(list(payload_check.check(view, view.payloads[0]))) == 5
    assert [set(found.hardening.required) for found in asked] == [FLOOR]


@pytest.mark.parametrize("listed", [(), (Property.NOW,), FLOOR - {Property.KCFI}])
def test_a_payload_for_another_target_file_cannot_leave_out_what_every_target_demands(
    tmp_path: Path, listed: Iterable[Property]
) -> None:
    view = of_an_older_target(tmp_path, listed)

    error = fault_in(view)

    assert error.code is Code.PAYLOAD_INCONSISTENT
    assert "kcfi" in error.why
    assert view.role_of(error.detail["file"]) == "hardening.json of x86-64-v4"


def test_the_header_and_the_config_speak_of_the_same_versions() -> None:
    assert (device.IR_VERSION, device.ABI_VERSION) == ("0.1.0", 1)
