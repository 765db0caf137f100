"""Moves bundles between a folder and a repository, by digest. What is there already is not moved again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farm.payload import HEADER, device_index
from farm.registry import log
from farm.registry.log import ReleaseLog
from farm.registry.remote import Remote
from kernelfarm import files, layout, oci, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, advising
from kernelfarm.layout import Limits
from kernelfarm.oci import Descriptor, Index, Manifest
from kernelfarm.oci_bundle import CONFIG, BundleView
from signing import dsse, verify
from signing.keys import PublicKey
from signing.release import LOG_ENTRY
from signing.statement import Statement

LOG_TAG = "release-log"
LOG = "application/vnd.kernelfarm.release-log.v1"
LOG_LINES = "application/vnd.kernelfarm.release-log.v1+jsonl"
_LOG_LARGEST = 64 << 20
_FOREIGN = "Do not use it: no farm published it so. Have who released it publish it again."

Say = Callable[[str], None]


def silent(line: str) -> None:
    """A `Say` that says nothing."""
    del line


@dataclass(frozen=True, slots=True)
class Pushed:
    """How much a push moved: blobs and documents, and how many were there before."""

    moved: int
    present: int


def push(remote: Remote, view: BundleView, say: Say = silent) -> Pushed:
    """Have a bundle in a repository: blobs, then payloads, the index, attestations, the layout, and lists for others.

    Nothing in the repository names anything that is not there yet, so that it may be broken off anywhere. The layout
    takes the place of the one before: of two that were signed apart, one counts. No version's tag is set. Raises as
    `Remote` does, BUNDLE_* where the folder changes meanwhile.
    """
    assert view.descriptor is not None
    moved: list[bool] = []
    folder = view.folder
    documents = {view.digest} | {item.digest for item in view.payloads}
    documents |= {item.descriptor.digest for item in view.attestations}
    for blob in sorted(set(folder.blobs) - documents):
        moved.append(remote.blobs.send(folder.root / oci.blob_name(blob), blob))
        if moved[-1]:
            say(f"pushed {blob}")
    for item in (*(payload.descriptor for payload in view.payloads), view.descriptor):
        moved.append(remote.keep(oci.bare(item), folder.read_blob(item)))
    subjects: dict[Digest, list[Descriptor]] = {}
    for attestation in view.attestations:
        item = attestation.descriptor
        moved.append(remote.keep(oci.bare(item), folder.read_blob(item)))
        listed = Descriptor(oci.MANIFEST, item.digest, item.size, oci.ATTESTATION)
        subjects.setdefault(attestation.subject, []).append(listed)
    moved.append(remote.lay_out(view.digest, folder.read(layout.INDEX)))
    for subject, attestations in sorted(subjects.items()):
        remote.attest(subject, attestations)
    return Pushed(sum(moved), len(moved) - sum(moved))


def pull(remote: Remote, wanted: Digest, public: PublicKey, folder: Path, say: Say = silent) -> None:
    """Have the bundle of a digest in a folder, which may hold a part of it; every byte is hashed as it comes.

    Its attestations are those that the layout names, signed with the key and of the form of ours; the lists of
    referrers, which anybody adds to, are not asked. What is missing then shows when the bundle is verified. Raises
    MANIFEST_*, BLOB_*, BUNDLE_INVALID, BUNDLE_LIMIT.
    """
    limits = Limits()
    with advising(_FOREIGN), files.coded("a bundle could not be written", folder):
        blobs = folder / layout.BLOB_FOLDER
        blobs.mkdir(parents=True, exist_ok=True)
        data = remote.document(wanted)
        index = Index.decode(data, oci.blob_name(wanted))
        if index.artifact_type != oci.BUNDLE or len(index.manifests) > limits.payloads:
            raise oci.malformed(oci.blob_name(wanted), "it is not the index of a bundle")
        kept = {wanted: data}
        headers = []
        for item in index.manifests:
            kept[item.digest] = remote.document(item.digest, item.size)
            name = oci.blob_name(item.digest)
            manifest = Manifest.decode(kept[item.digest], name)
            oci_bundle.require_payload_manifest(manifest, name)
            for blob in (*manifest.layers, manifest.config):
                if blob.size > limits.blob:
                    what = f"{blob.title or CONFIG} is larger than {limits.blob} bytes"
                    raise FarmError(Code.BUNDLE_LIMIT, what, next_step=_FOREIGN)
                remote.fetch(blob, folder / oci.blob_name(blob.digest))
            headers += [layer for layer in manifest.layers if layer.title == HEADER]
            say(f"fetched {item.digest}")
        described = oci.describe(data, oci.INDEX)
        subjects = {described, *map(oci.bare, index.manifests)}
        attestations = _attestations(remote, described, subjects, public, kept)
        for name, document in kept.items():
            (folder / oci.blob_name(name)).write_bytes(document)
        (folder / layout.LAYOUT).write_bytes(oci.LAYOUT_BYTES)
        (folder / layout.DEVICE_INDEX).write_bytes(device_index(headers))
        top = oci_bundle.top_index(described, attestations).encode()
        (folder / layout.INDEX).write_bytes(top)
        _remove_others(blobs, kept, index)


@contextmanager
def fetched(remote: Remote, wanted: Digest, public: PublicKey, scratch: Path) -> Iterator[BundleView]:
    """The bundle of a digest for the time of the block, in a folder below `scratch`. Raises as `pull`."""
    with (
        advising(_FOREIGN),
        files.coded("a release could not be fetched", scratch),
        files.temp_folder(scratch) as folder,
    ):
        pull(remote, wanted, public, folder)
        yield oci_bundle.read(folder).require()


def statements_of(remote: Remote, wanted: Digest, public: PublicKey) -> dict[str, Statement]:
    """What the key signed about a bundle and its payloads, by file, without fetching these. Raises as `pull`."""
    with advising(_FOREIGN):
        return _statements_of(remote, wanted, public)


def _statements_of(remote: Remote, wanted: Digest, public: PublicKey) -> dict[str, Statement]:
    data = remote.document(wanted)
    index = Index.decode(data, oci.blob_name(wanted))
    described = oci.describe(data, oci.INDEX)
    kept: dict[Digest, bytes] = {}
    found = {}
    for item in _attestations(remote, described, {described, *map(oci.bare, index.manifests)}, public, kept):
        manifest = Manifest.decode(kept[item.digest], oci.blob_name(item.digest))
        (layer,) = manifest.layers
        name = oci.blob_name(layer.digest)
        found[name] = dsse.open_sealed(kept[layer.digest], public, name)
        assert manifest.subject is not None
        verify.require_subject(found[name], manifest.subject.digest, name)
    return found


def payloads_of(remote: Remote, wanted: Digest) -> tuple[tuple[str, Digest], ...]:
    """The payloads of a bundle by target, from its index alone."""
    with advising(_FOREIGN):
        index = Index.decode(remote.document(wanted), oci.blob_name(wanted))
    return tuple(sorted((dict(item.annotations).get(oci.TARGET, ""), item.digest) for item in index.manifests))


def _attestations(
    remote: Remote, bundle: Descriptor, subjects: set[Descriptor], public: PublicKey, kept: dict[Digest, bytes]
) -> list[Descriptor]:
    """The attestations that the bundle's layout names; their documents and statements are added to `kept`."""
    listed = [item for item in remote.layout(bundle.digest).manifests if item.media_type == oci.MANIFEST]
    if len(listed) > Limits().attestations:
        what = f"the layout of {bundle.digest} lists more than {Limits().attestations} attestations"
        raise FarmError(Code.BUNDLE_LIMIT, what, next_step=_FOREIGN)
    found = []
    for item in listed:
        data = remote.document(item.digest, item.size)
        layer = _layer(data, item.digest, subjects)
        if layer is None:
            continue
        envelope = _blob(remote, layer)
        if _is_ours(envelope, public):
            kept |= {item.digest: data, layer.digest: envelope, oci_bundle.EMPTY.digest: oci.EMPTY_BYTES}
            found.append(item)
    return found


def _layer(data: bytes, name: Digest, subjects: set[Descriptor]) -> Descriptor | None:
    """The signed statement that a document ties to one of the subjects; None for a document that is no such tie."""
    try:
        manifest = Manifest.decode(data, oci.blob_name(name))
        (layer,) = manifest.layers
    except (FarmError, ValueError):
        return None
    if manifest.subject not in subjects or manifest != oci_bundle.attestation_manifest(manifest.subject, layer):
        return None
    return layer if layer.media_type == oci.ATTESTATION and layer.size <= Limits().document else None


def _is_ours(envelope: bytes, public: PublicKey) -> bool:
    """Whether the key signed it as a part of a bundle: entries of a log are public too, and no part of one."""
    try:
        return dsse.open_sealed(envelope, public).predicate_type != LOG_ENTRY
    except FarmError:
        return False


def _blob(remote: Remote, blob: Descriptor) -> bytes:
    with tempfile.TemporaryDirectory(prefix="farm-") as folder:
        path = Path(folder) / "blob"
        remote.blobs.get(blob.digest, blob.size, path)
        return path.read_bytes()


def _remove_others(blobs: Path, kept: dict[Digest, bytes], index: Index) -> None:
    """What an earlier, broken fetch left and this one does not name."""
    wanted = set(kept)
    for item in index.manifests:
        manifest = Manifest.decode(kept[item.digest], "")
        wanted |= {blob.digest for blob in (*manifest.layers, manifest.config)}
    for path in sorted(blobs.iterdir()):
        if f"sha256:{path.name}" not in wanted:
            path.unlink()


def read_log(remote: Remote, public: PublicKey, repository: str = "") -> ReleaseLog:
    """The release log of a repository, checked; an empty one where there is none. Raises as `log.decode`.

    `repository` is whose log it must be, where that is not the path it is read from: of a mirror.
    """
    data = remote.tagged(LOG_TAG)
    if data is None:
        return ReleaseLog()
    name = f"the tag {LOG_TAG}"
    with advising(log.ADVICE):
        manifest = Manifest.decode(data, name)
    if len(manifest.layers) != 1 or manifest != _log_manifest(manifest.layers[0]):
        raise oci.malformed(name, "it is not the manifest of a release log").advised(log.ADVICE)
    (layer,) = manifest.layers
    if layer.size > _LOG_LARGEST:
        why = f"it has {layer.size} bytes, at most {_LOG_LARGEST} are read"
        advice = "Publish to another repository. If it did not grow by its releases, tell who runs the registry."
        raise FarmError(Code.LOG_INVALID, "the release log is too large", why, advice)
    return log.decode(_blob(remote, layer), public, repository or remote.reference.repository)


def write_log(remote: Remote, found: ReleaseLog, scratch: Path) -> None:
    """Put a release log in the place of the one before, which it extends."""
    data = found.encode()
    layer = oci.describe(data, LOG_LINES)
    for blob in (data, oci.EMPTY_BYTES):
        described = oci.describe(blob, "")
        path = scratch / "log"
        path.write_bytes(blob)
        remote.blobs.send(path, described.digest)
    remote.put(LOG_TAG, _log_manifest(layer).encode(), oci.MANIFEST)


def _log_manifest(layer: Descriptor) -> Manifest:
    return Manifest(LOG, oci_bundle.EMPTY, (oci.bare(layer),))
