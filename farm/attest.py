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
from signing.release import verdicts_named
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

    A new licence verdict takes the place of the one before, but never of one that the release rests on: that stays.
    All or nothing: the bundle is staged beside `root`, its statements verified, and renamed. One caller at a time.
    Where `root` is a link, the bundle that it leads to gets them, and the link stays.
    Raises `FarmError` for a bundle that does not verify under the signer's key, SIGNER_* when it refuses, class
    ENVIRONMENT of the disk.
    """
    root = root.resolve()
    view = oci_bundle.read(root).require()
    present = {item.descriptor.digest: _open(view, item.envelope, signer.public) for item in view.attestations}
    named = verdicts_named(present.values())
    kept = [
        item
        for item in view.attestations
        if (said := present[item.descriptor.digest]).identity in named or not _superseded(said, statements)
    ]
    known = {said.identity for said in present.values()}
    wanted = [item for item in statements if item.identity not in known]
    if not wanted and len(kept) == len(view.attestations):
        return 0
    sealed = signer.sign(root, wanted) if wanted else []
    with files.coded("the bundle could not be written", root), files.temp_folder(root.parent) as staged:
        _copy(root, staged)
        _drop(staged, [item for item in view.attestations if item not in kept])
        _add(view, staged, kept, wanted, sealed)
        require_trusted(staged, signer)
        publish.publish(staged, root)
    return len(wanted)


def _open(view: BundleView, envelope: Descriptor, public: PublicKey) -> Statement:
    return dsse.open_sealed(view.folder.read_blob(envelope), public, oci.blob_name(envelope.digest))


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


def _superseded(said: Statement, statements: Sequence[Statement]) -> bool:
    """Whether it is a verdict about a payload that another of these statements judges."""
    judged = {one.subjects: one.identity for one in statements if one.predicate_type == LICENCES}
    return said.predicate_type == LICENCES and judged.get(said.subjects, said.identity) != said.identity


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
