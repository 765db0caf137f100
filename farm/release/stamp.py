"""Writes a bundle again under a version, with the statement that releases it. The payloads stay, bit for bit.

Only the image index changes, as the version is an annotation of it, and with it the bundle's digest and signature. The
provenances, comparisons and the verdicts that the release rests on are about payloads and are taken over as they are.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from farm import publish, staging
from farm.attest import link_blob
from farm.bundle import require_trusted
from kernelfarm import files, layout, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.oci import Index
from kernelfarm.oci_bundle import AttestationView, BundleView
from signing import dsse, facts
from signing.client import Signer
from signing.licences import LICENCES
from signing.release import Release
from signing.statement import Statement


def index_of(view: BundleView, version: str) -> bytes:
    """The image index of a bundle with another version."""
    assert view.descriptor is not None
    old = Index.decode(view.folder.read_blob(view.descriptor), oci.blob_name(view.digest))
    annotations = tuple(sorted({**dict(old.annotations), oci.VERSION: version}.items()))
    return dataclasses.replace(old, annotations=annotations).encode()


def write(view: BundleView, out: Path, release: Release, signer: Signer) -> Digest:
    """Write the released bundle to `out`, whole and verified or not at all, and give its digest.

    Raises as `farm.attest.attach`.
    """
    assert view.descriptor is not None
    data = index_of(view, release.version)
    index = oci.describe(data, oci.INDEX)
    with files.coded("the release could not be written", out), files.temp_folder(out.parent) as staged:
        (staged / layout.BLOB_FOLDER).mkdir(parents=True)
        kept = [item for item in view.attestations if _is_kept(view, item, release)]
        for blob in _blobs(view, kept):
            link_blob(view.folder.root, staged, blob)
        staging.put(staged, data)
        staging.put(staged, oci.EMPTY_BYTES)
        for name in (layout.LAYOUT, layout.DEVICE_INDEX):
            (staged / name).write_bytes(view.folder.read(name))
        staging.write_top(staged, index, [item.descriptor for item in kept])
        statements: list[Statement] = [
            facts.facts_of(oci_bundle.read(staged)).signature(),
            release.statement(index.digest),
        ]
        made = staging.put_statements(staged, [index], statements, signer.sign(staged, statements))
        staging.write_top(staged, index, [*(item.descriptor for item in kept), *made])
        require_trusted(staged, signer)
        publish.publish(staged, out)
    return index.digest


def _is_kept(view: BundleView, item: AttestationView, release: Release) -> bool:
    """Whether it is about a payload, and, where it is a verdict, the one that counted."""
    said = dsse.read_unverified(view.folder.read_blob(item.envelope))[1]
    counted = {agreed.verdict for agreed in release.payloads}
    return item.subject != view.digest and (said.predicate_type != LICENCES or said.identity in counted)


def _blobs(view: BundleView, kept: list[AttestationView]) -> list[Digest]:
    """What the released bundle takes over: everything but the old index and what speaks about it."""
    found = {blob.digest for payload in view.payloads for blob in (payload.descriptor, *payload.files.values())}
    return sorted(found | {blob.digest for item in kept for blob in (item.descriptor, item.envelope)})
