"""A valid signature by the right key over another bundle, put into the real one: refused."""

from __future__ import annotations

from pathlib import Path

from farm.verify import verify_bundle
from kernelfarm import digest, layout, oci, oci_bundle
from kernelfarm.errors import Code
from kernelfarm.oci_bundle import BundleView
from signing import dsse, facts, keys
from signing.statement import Statement
from tests.support.product import Built


def test_a_valid_signature_over_another_bundle_is_refused(real_bundle: Built, tiny_bundle: Built, tmp_path: Path):
    bundle = real_bundle.copy(tmp_path / "bundle")
    other = facts.facts_of(oci_bundle.read(tiny_bundle.bundle)).signature()

    name = replace_signature(bundle, other, real_bundle)

    report = verify_bundle(bundle, keys.load_public(real_bundle.product.public_key))
    assert [(error.code, error.detail["file"]) for error in report.errors] == [(Code.SIGNATURE_FOREIGN, name)]


def test_the_same_surgery_with_the_right_statement_verifies(real_bundle: Built, tmp_path: Path):
    bundle = real_bundle.copy(tmp_path / "bundle")
    own = facts.facts_of(oci_bundle.read(bundle)).signature()

    replace_signature(bundle, own, real_bundle)

    assert verify_bundle(bundle, keys.load_public(real_bundle.product.public_key)).ok


def replace_signature(bundle: Path, statement: Statement, maker: Built) -> str:
    """Seal `statement` with the maker's own key and file it as the bundle's signature; returns its blob's name."""
    view = oci_bundle.read(bundle).require()
    assert view.descriptor is not None
    old = next(item for item in view.attestations if item.subject == view.digest)
    kept = [item.descriptor for item in view.attestations if item != old]
    data = dsse.seal(statement, keys.load_private(maker.product.home / "keys" / "default.key"))
    manifest = oci_bundle.attestation_manifest(view.descriptor, oci.describe(data, oci.ATTESTATION)).encode()
    remove(view, old.descriptor, old.envelope)
    for blob in (data, manifest):
        (bundle / oci.blob_name(digest.of_bytes(blob))).write_bytes(blob)
    top = oci_bundle.top_index(view.descriptor, [*kept, oci.describe(manifest, oci.MANIFEST)])
    index = bundle / layout.INDEX
    index.chmod(0o644)
    index.write_bytes(top.encode())
    return oci.blob_name(digest.of_bytes(data))


def remove(view: BundleView, *blobs: oci.Descriptor) -> None:
    for blob in blobs:
        view.folder.blob_path(blob).unlink()
