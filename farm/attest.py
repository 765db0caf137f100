"""Adds signed statements to a bundle that exists. Its digest stays what it is: only `index.json` lists more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from farm import publish, staging
from farm.bundle import require_trusted
from kernelfarm import files, layout, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import FarmError
from kernelfarm.oci import Descriptor
from kernelfarm.oci_bundle import AttestationView, BundleView
from signing import dsse
from signing.client import Signer
from signing.keys import PublicKey
from signing.licences import LICENCES
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

    Of a licence verdict a payload has one: a new one takes the place of the old one.
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
        kept = [item for item in view.attestations if not _superseded(view, item, wanted)]
        _drop(staged, [item for item in view.attestations if item not in kept])
        _add(view, staged, kept, wanted, sealed)
        require_trusted(staged, signer)
        publish.publish(staged, root)
    return len(wanted)


def _open(view: BundleView, envelope: Descriptor, public: PublicKey) -> bytes:
    return dsse.open_sealed(view.folder.read_blob(envelope), public, oci.blob_name(envelope.digest)).encode()


def _copy(root: Path, staged: Path) -> None:
    """The same files: blobs as links where the file system can (they never change), the rest copied."""
    shutil.copytree(root / "blobs", staged / "blobs", copy_function=_link)
    for name in (layout.LAYOUT, layout.DEVICE_INDEX):
        shutil.copyfile(root / name, staged / name)


def link_blob(root: Path, staged: Path, blob: Digest) -> None:
    """Have a blob of the bundle in `root` in the folder `staged` too. Raises `OSError` as the system does."""
    _link(str(root / oci.blob_name(blob)), str(staged / oci.blob_name(blob)))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _superseded(view: BundleView, item: AttestationView, statements: Sequence[Statement]) -> bool:
    judged = {subject.digest for one in statements if one.predicate_type == LICENCES for subject in one.subjects}
    if item.subject not in judged:
        return False
    return dsse.read_unverified(view.folder.read_blob(item.envelope))[1].predicate_type == LICENCES


def _drop(staged: Path, items: Sequence[AttestationView]) -> None:
    for blob in {blob.digest for item in items for blob in (item.descriptor, item.envelope)}:
        (staged / oci.blob_name(blob)).unlink()


def _add(
    view: BundleView,
    staged: Path,
    kept: Sequence[AttestationView],
    statements: Sequence[Statement],
    sealed: Sequence[bytes],
) -> None:
    assert view.descriptor is not None
    subjects = (view.descriptor, *(payload.descriptor for payload in view.payloads))
    made = staging.put_statements(staged, subjects, statements, sealed)
    staging.write_top(staged, view.descriptor, [*(item.descriptor for item in kept), *made])
