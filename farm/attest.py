"""Adds signed statements to a bundle that exists. Its digest stays what it is: only `index.json` lists more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from farm import publish
from farm.bundle import require_trusted
from kernelfarm import digest, files, layout, oci, oci_bundle
from kernelfarm.errors import FarmError
from kernelfarm.oci import Descriptor
from kernelfarm.oci_bundle import BundleView
from signing import dsse
from signing.client import Signer
from signing.keys import PublicKey
from signing.statement import SIGNATURE, Statement


def is_own(view: BundleView, public: PublicKey) -> bool:
    """Whether this key signed the bundle: a statement by another key would make it fail under the first."""
    for item in view.attestations:
        name = oci.blob_name(item.envelope.digest)
        try:
            if dsse.open_sealed(view.folder.read_blob(item.envelope), public, name).predicate_type == SIGNATURE:
                return True
        except FarmError:
            continue
    return False


def attach(root: Path, statements: Sequence[Statement], signer: Signer) -> int:
    """Sign the statements about the bundle in `root` and add them; returns how many were not there yet.

    All or nothing: the bundle is staged beside `root`, its statements verified, and renamed. One caller at a time.
    Where `root` is a link, the bundle that it leads to gets them, and the link stays.
    Raises `FarmError` for a bundle that does not verify under the signer's key, SIGNER_* when it refuses, class
    ENVIRONMENT of the disk.
    """
    root = root.resolve()
    view = oci_bundle.read(root).require()
    present = {_open(view, item.envelope, signer.public) for item in view.attestations}
    wanted = [item for item in statements if item.encode() not in present]
    if not wanted:
        return 0
    sealed = signer.sign(root, wanted)
    with files.coded("the bundle could not be written", root), files.temp_folder(root.parent) as staged:
        _copy(root, staged)
        _add(view, staged, wanted, sealed)
        require_trusted(staged, signer)
        publish.publish(staged, root)
    return len(wanted)


def _open(view: BundleView, envelope: Descriptor, public: PublicKey) -> bytes:
    return dsse.open_sealed(view.folder.read_blob(envelope), public, oci.blob_name(envelope.digest)).encode()


def _copy(root: Path, staged: Path) -> None:
    """The same files: blobs as links where the file system can (they never change), the rest copied."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

    shutil.copytree(root / "blobs", staged / "blobs", copy_function=link)
    for name in (layout.LAYOUT, layout.DEVICE_INDEX):
        shutil.copyfile(root / name, staged / name)


def _add(view: BundleView, staged: Path, statements: Sequence[Statement], sealed: Sequence[bytes]) -> None:
    assert view.descriptor is not None
    subjects = {item.digest: item for item in (view.descriptor, *(payload.descriptor for payload in view.payloads))}
    manifests = [item.descriptor for item in view.attestations]
    for statement, data in zip(statements, sealed, strict=True):
        envelope = oci.describe(data, oci.ATTESTATION)
        manifest = oci_bundle.attestation_manifest(subjects[statement.subjects[0].digest], envelope).encode()
        for blob in (data, manifest, oci.EMPTY_BYTES):
            place = staged / oci.blob_name(digest.of_bytes(blob))
            if not place.exists():  # a blob that is there may be a link into the bundle in use
                place.write_bytes(blob)
        manifests.append(oci.describe(manifest, oci.MANIFEST))
    (staged / layout.INDEX).write_bytes(oci_bundle.top_index(view.descriptor, manifests).encode())
