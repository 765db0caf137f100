"""Verification: only the bundle that the key's owner signed passes, and whatever is wrong is named."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.verify import Report, verify_bundle
from kernelfarm import nouns, oci, oci_bundle
from kernelfarm.digest import of_bytes
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.oci import Descriptor, Index
from kernelfarm.oci_bundle import BundleView, PayloadView
from signing import dsse
from signing.statement import Statement, Subject
from tests.support import bundles

FLIPS_PER_FILE = 24


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return bundles.write(tmp_path / "cls", tmp_path / "work").path


def codes(report: Report) -> set[Code]:
    return {error.code for error in report.errors}


def named(report: Report) -> set[str]:
    """Every file that an error names: the one that is wrong, or the one that names it."""
    return {error.detail[key] for error in report.errors for key in ("file", "named_by") if key in error.detail}


def test_a_bundle_as_written_is_verified(bundle: Path) -> None:
    report = bundles.verified(bundle)

    assert (report.ok, report.status) == (True, Status.DONE)
    assert sorted(check.name for check in report.checks) == [
        "attestations",
        "configs",
        "device index",
        "layout",
        "payload",
        "payload",
        "provenance of x86-64-v3",
        "provenance of x86-64-v4",
        "signature",
    ]
    assert report.to_json()["signature"] == "verified"
    assert set(report.to_json()["targets"]) == {"x86-64-v3", "x86-64-v4"}


def test_every_flipped_byte_is_detected_and_its_file_named(bundle: Path) -> None:
    draw = random.Random(20261129)
    flips = 0
    for path in bundles.plain_files(bundle):
        name, data = path.relative_to(bundle).as_posix(), path.read_bytes()
        for _ in range(FLIPS_PER_FILE):
            position, mask = draw.randrange(len(data)), draw.randrange(1, 256)
            path.write_bytes(data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :])
            report = bundles.verified(bundle)
            assert not report.ok, f"{name} at {position} ^ {mask:#x}"
            assert name in named(report), f"{name} at {position} ^ {mask:#x}: {named(report)}"
            assert report.status is Status.BAD
            flips += 1
        path.write_bytes(data)

    assert flips >= 500
    assert bundles.verified(bundle).ok


def test_every_byte_of_the_files_that_no_digest_covers_matters(bundle: Path) -> None:
    for name in ("index.json", "oci-layout", "media.idx"):
        path, data = bundle / name, (bundle / name).read_bytes()
        for position in range(len(data)):
            path.write_bytes(data[:position] + bytes([data[position] ^ 0x20]) + data[position + 1 :])
            assert name in named(bundles.verified(bundle)), f"{name} at {position}"
        path.write_bytes(data)


@pytest.mark.parametrize("size", [0, 1, 15])
def test_a_truncated_or_longer_device_index_is_refused(bundle: Path, size: int) -> None:
    data = (bundle / "media.idx").read_bytes()
    for wrong in (data[:size], data + b"\0" * (size + 1)):
        (bundle / "media.idx").write_bytes(wrong)
        assert codes(bundles.verified(bundle)) == {Code.DEVICE_INDEX_WRONG}


def test_a_bundle_without_its_device_index_is_refused(bundle: Path) -> None:
    (bundle / "media.idx").unlink()

    assert codes(bundles.verified(bundle)) == {Code.BUNDLE_MISSING}


def test_the_device_index_of_another_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = bundles.write(tmp_path / "other", tmp_path / "work", salt="other").path
    shutil.copy(other / "media.idx", bundle / "media.idx")

    report = bundles.verified(bundle)

    assert (codes(report), named(report)) == ({Code.DEVICE_INDEX_WRONG}, {"media.idx"})


def test_another_key_is_refused(bundle: Path) -> None:
    report = bundles.verified(bundle, bundles.signer(2).public)

    assert (codes(report), report.status, len(report.errors)) == ({Code.WRONG_KEY}, Status.BAD, 3)
    assert report.to_json()["signature"] == "refused"


def attestations(bundle: Path) -> dict[Descriptor, bytes]:
    """The statements of a bundle, signed, by what they are about."""
    view = oci_bundle.read(bundle).require()
    about = {oci.bare(item): item for item in (view.descriptor, *(p.descriptor for p in view.payloads)) if item}
    return {
        about[subject]: view.folder.read_blob(item.envelope)
        for item in view.attestations
        for subject in about
        if subject.digest == item.subject
    }


def rewrite(bundle: Path, statements: list[tuple[Descriptor, bytes]]) -> None:
    """Replace the attestations of a bundle, the way an attacker without the key can: everything but signatures fits."""
    view = oci_bundle.read(bundle)
    for item in view.attestations:
        view.folder.blob_path(item.descriptor).unlink()
        view.folder.blob_path(item.envelope).unlink()
    listed = []
    for subject, data in statements:
        envelope = oci.describe(data, oci.ATTESTATION)
        manifest = oci_bundle.attestation_manifest(subject, envelope).encode()
        for blob in (data, manifest):
            (bundle / oci.blob_name(of_bytes(blob))).write_bytes(blob)
        listed.append(oci.describe(manifest, oci.MANIFEST))
    assert view.descriptor is not None
    (bundle / "index.json").write_bytes(oci_bundle.top_index(view.descriptor, listed).encode())


def test_the_rewriting_of_these_tests_is_sound(bundle: Path) -> None:
    rewrite(bundle, list(attestations(bundle).items()))

    assert bundles.verified(bundle).ok


def test_a_valid_signature_over_another_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = bundles.write(tmp_path / "other", tmp_path / "work", salt="other").path
    theirs = [data for subject, data in attestations(other).items() if subject.media_type == oci.INDEX]
    ours = {s: theirs[0] if s.media_type == oci.INDEX else data for s, data in attestations(bundle).items()}
    rewrite(bundle, list(ours.items()))

    report = bundles.verified(bundle)

    assert codes(report) == {Code.SIGNATURE_FOREIGN}
    assert named(report) == {oci.blob_name(of_bytes(theirs[0]))}


def test_a_valid_provenance_of_another_payload_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = bundles.write(tmp_path / "other", tmp_path / "work", salt="other").path
    theirs = {s.annotations: data for s, data in attestations(other).items() if s.media_type == oci.MANIFEST}
    ours = {s: theirs.get(s.annotations, data) for s, data in attestations(bundle).items()}
    rewrite(bundle, list(ours.items()))

    assert codes(bundles.verified(bundle)) == {Code.SIGNATURE_FOREIGN}


def test_provenances_that_changed_places_are_refused(bundle: Path) -> None:
    found = attestations(bundle)
    first, second = (subject for subject in found if subject.media_type == oci.MANIFEST)
    found[first], found[second] = found[second], found[first]
    rewrite(bundle, list(found.items()))

    assert codes(bundles.verified(bundle)) == {Code.SIGNATURE_FOREIGN}


@pytest.mark.parametrize("lost", [oci.INDEX, oci.MANIFEST])
def test_a_missing_attestation_is_noticed(bundle: Path, lost: str) -> None:
    found = attestations(bundle)
    del found[next(subject for subject in found if subject.media_type == lost)]
    rewrite(bundle, list(found.items()))

    assert codes(bundles.verified(bundle)) == {Code.SIGNATURE_MISSING}


def test_a_bundle_without_any_attestation_is_refused(bundle: Path) -> None:
    rewrite(bundle, [])
    (bundle / oci.blob_name(of_bytes(b"{}"))).unlink()

    assert codes(bundles.verified(bundle)) == {Code.SIGNATURE_MISSING}


def test_one_signature_too_many_is_refused_even_if_it_is_valid(bundle: Path) -> None:
    found = attestations(bundle)
    (index,) = (subject for subject in found if subject.media_type == oci.INDEX)
    again = dsse.seal(dsse.open_sealed(found[index], bundles.signer().public), bundles.signer().private)
    rewrite(bundle, [*found.items(), (index, again)])

    assert codes(bundles.verified(bundle)) == {Code.ATTESTATION_INVALID}


def test_a_second_signature_by_a_stranger_is_refused(bundle: Path) -> None:
    found = attestations(bundle)
    (index,) = (subject for subject in found if subject.media_type == oci.INDEX)
    strange = dsse.seal(dsse.open_sealed(found[index], bundles.signer().public), bundles.signer(2).private)
    rewrite(bundle, [*found.items(), (index, strange)])

    assert codes(bundles.verified(bundle)) == {Code.WRONG_KEY}


def test_a_signed_statement_of_an_unknown_kind_is_refused(bundle: Path) -> None:
    found = attestations(bundle)
    (index,) = (subject for subject in found if subject.media_type == oci.INDEX)
    odd = dsse.seal(Statement((Subject("cls", index.digest),), "urn:odd", {}), bundles.signer().private)
    rewrite(bundle, [*found.items(), (index, odd)])

    assert codes(bundles.verified(bundle)) == {Code.ATTESTATION_INVALID}


def test_a_payload_that_is_taken_out_breaks_the_signature(bundle: Path) -> None:
    """Not even the owner of both payloads can ship one of them under the old signature."""
    view = oci_bundle.read(bundle).require()
    assert view.descriptor is not None
    index = Index.decode(view.folder.read_blob(view.descriptor), "index")
    kept = view.payloads[1]
    found = attestations(bundle)
    for path in bundles.plain_files(bundle / "blobs"):
        if path not in {view.folder.blob_path(item) for item in (kept.descriptor, *kept.files.values())}:
            path.unlink()
    smaller = Index(index.manifests[1:], index.artifact_type, index.annotations).encode()
    (bundle / oci.blob_name(of_bytes(smaller))).write_bytes(smaller)
    (bundle / oci.blob_name(of_bytes(b"{}"))).write_bytes(b"{}")
    top = oci_bundle.top_index(oci.describe(smaller, oci.INDEX), [])
    (bundle / "index.json").write_bytes(top.encode())
    device = bundles.write(bundle.parent / "small", bundle.parent / "work", targets=["x86-64-v4"]).path / "media.idx"
    shutil.copy(device, bundle / "media.idx")
    (signature,) = (data for subject, data in found.items() if subject.media_type == oci.INDEX)
    (provenance,) = (data for subject, data in found.items() if subject.digest == kept.digest)
    rewrite(bundle, [(oci.describe(smaller, oci.INDEX), signature), (kept.descriptor, provenance)])

    report = bundles.verified(bundle)

    assert codes(report) == {Code.SIGNATURE_FOREIGN}


def test_a_provenance_for_another_model_than_the_payload_s_is_refused(bundle: Path) -> None:
    found = attestations(bundle)
    payload = next(subject for subject in found if subject.media_type == oci.MANIFEST)
    other = nouns.Model("other", of_bytes(b"other"), 5)
    target = dict(payload.annotations)[oci.TARGET]
    made = bundles.provenance(target, model=other).statement(payload.digest)
    found[payload] = dsse.seal(made, bundles.signer().private)
    rewrite(bundle, list(found.items()))

    assert codes(bundles.verified(bundle)) == {Code.SIGNATURE_FOREIGN}


def test_without_a_key_integrity_is_checked_and_nothing_else_is_claimed(bundle: Path) -> None:
    report = verify_bundle(bundle, None, check_payload=bundles.no_check)

    assert report.ok
    assert report.to_json()["signature"] == "not checked"
    assert sum("NOT CHECKED" in check.found for check in report.checks) == 3

    (bundle / "media.idx").write_bytes(b"")
    assert not verify_bundle(bundle, None, check_payload=bundles.no_check).ok


def test_nothing_of_a_payload_is_parsed_before_its_signature_holds(bundle: Path) -> None:
    def explode(view: BundleView, payload: PayloadView) -> Iterator[tuple[str, str]]:
        raise AssertionError(f"{payload.target} of {view.name} was parsed")

    report = verify_bundle(bundle, bundles.signer(2).public, check_payload=explode)

    assert codes(report) == {Code.WRONG_KEY}


def test_a_payload_that_does_not_fit_is_named_and_the_others_are_still_checked(bundle: Path) -> None:
    def check(view: BundleView, payload: PayloadView) -> Iterator[tuple[str, str]]:
        if payload.target == "x86-64-v3":
            raise FarmError(Code.PAYLOAD_INCONSISTENT, "no", detail={"file": view.digest})
        yield "header", "fits"

    report = verify_bundle(bundle, bundles.signer().public, check_payload=check)

    assert (codes(report), report.status) == ({Code.PAYLOAD_INCONSISTENT}, Status.BAD)
    assert [check.found for check in report.checks if check.subject == "x86-64-v4"] == ["header: fits"]


def test_something_that_is_no_bundle_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        bundles.verified(tmp_path / "absent")

    assert caught.value.code is Code.BUNDLE_INVALID


def test_an_empty_folder_is_a_bad_bundle(tmp_path: Path) -> None:
    report = bundles.verified(tmp_path)

    assert (report.status, named(report)) == (Status.BAD, {"oci-layout", "index.json"})
