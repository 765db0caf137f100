"""What the documents of a bundle's layout say, checked so that every byte of the folder is accounted for.

index.json -> one image index (the bundle; its digest is the bundle's) -> one payload manifest per target -> the
payload's files; and -> attestation manifests, each with a `subject` in the same bundle and one blob, the signed
statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelfarm import layout, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.layout import Folder, Limits, fault
from kernelfarm.oci import Descriptor, Index, Manifest

CONFIG = "config.json"

_TARGET = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
EMPTY = oci.describe(oci.EMPTY_BYTES, oci.EMPTY)
"""The config of whatever is no image."""


@dataclass(frozen=True, slots=True)
class PayloadView:
    """One payload: `descriptor` is its manifest's; `files` maps a title to its blob, `config.json` included."""

    target: str
    descriptor: Descriptor
    files: Mapping[str, Descriptor]

    @property
    def digest(self) -> Digest:
        """The payload's digest: its manifest's."""
        return self.descriptor.digest


@dataclass(frozen=True, slots=True)
class AttestationView:
    """One attestation: its manifest's descriptor, what it speaks about, the blob with the signed statement."""

    descriptor: Descriptor
    subject: Digest
    envelope: Descriptor


@dataclass(slots=True)
class BundleView:
    """A bundle as its folder holds it. When `faults` is empty, every byte of the folder is accounted for."""

    folder: Folder
    descriptor: Descriptor | None = None
    name: str = ""
    version: str | None = None
    payloads: list[PayloadView] = field(default_factory=list)
    attestations: list[AttestationView] = field(default_factory=list)
    roles: dict[Digest, str] = field(default_factory=dict)

    @property
    def faults(self) -> list[FarmError]:
        """Everything that is wrong; the detail of each names the `file`."""
        return self.folder.faults

    @property
    def digest(self) -> Digest:
        """The bundle's digest: its image index's. Raises the first fault when the folder names none."""
        if self.descriptor is None:
            raise self.faults[0]
        return self.descriptor.digest

    def role_of(self, name: str) -> str:
        """What the file `name` is for people ("kernels.so of x86-64-v4"); empty for one that no document names."""
        return next((role for blob, role in self.roles.items() if oci.blob_name(blob) == name), "")

    def require(self) -> BundleView:
        """This view; raises the first fault, if any, as one of this bundle."""
        if self.faults:
            raise of_bundle(self.faults[0], str(self.folder.root))
        return self


AGAIN = "Write the bundle again where it was made, or fetch it again."
"""What helps with a bundle that is not what it should be."""


def of_bundle(error: FarmError, name: str) -> FarmError:
    """An error about a file of a bundle as one that says which bundle it is, and what helps."""
    return FarmError(error.code, f"{name}: {error.what}", error.why, error.next_step or AGAIN, error.detail)


def read(root: Path, limits: Limits | None = None) -> BundleView:
    """Read and check the bundle in the folder `root`; raises as `layout.scan`, else faults are in the result."""
    view = BundleView(layout.scan(root, limits))
    if layout.INDEX in view.folder.names:
        with view.folder.noting():
            _read_top(view, Index.decode(view.folder.read(layout.INDEX), layout.INDEX))
    if not view.faults:  # a document that cannot be read names nothing: its blobs are no news then
        for blob in sorted(set(view.folder.blobs) - set(view.roles)):
            view.faults.append(fault(Code.BUNDLE_EXTRA, oci.blob_name(blob), "no document names it"))
    return view


def top_index(bundle: Descriptor, attestations: Sequence[Descriptor]) -> Index:
    """The `index.json` of a bundle: the image index first, then the attestations' manifests by digest."""
    listed = [Descriptor(oci.MANIFEST, item.digest, item.size, oci.ATTESTATION) for item in attestations]
    return Index(
        (
            Descriptor(oci.INDEX, bundle.digest, bundle.size, oci.BUNDLE),
            *sorted(listed, key=lambda item: item.digest),
        )
    )


def attestation_manifest(subject: Descriptor, envelope: Descriptor) -> Manifest:
    """The manifest that ties a signed statement, a blob, to the manifest or index that it speaks about."""
    return Manifest(oci.ATTESTATION, EMPTY, (oci.bare(envelope),), oci.bare(subject))


def _read_top(view: BundleView, top: Index) -> None:
    bundles = [item for item in top.manifests if item.media_type == oci.INDEX]
    others = [item for item in top.manifests if item.media_type != oci.INDEX]
    if len(bundles) != 1:
        raise fault(Code.BUNDLE_INVALID, layout.INDEX, f"it lists {len(bundles)} image indexes instead of one")
    if len(others) > view.folder.limits.attestations:
        raise fault(
            Code.BUNDLE_LIMIT, layout.INDEX, f"it lists more than {view.folder.limits.attestations} attestations"
        )
    if len({item.digest for item in others}) != len(others):
        raise fault(Code.BUNDLE_INVALID, layout.INDEX, "it lists a manifest twice")
    if top != top_index(bundles[0], others):
        raise fault(Code.BUNDLE_INVALID, layout.INDEX, "its list is not the bundle and its attestations, in order")
    view.descriptor = bundles[0]
    with view.folder.noting():
        _read_bundle(view, bundles[0])
    for item in others:
        with view.folder.noting():
            _read_attestation(view, item)


def _read_bundle(view: BundleView, descriptor: Descriptor) -> None:
    name = oci.blob_name(descriptor.digest)
    index = Index.decode(_document(view, descriptor, layout.INDEX, "the image index"), name)
    texts = dict(index.annotations)
    if index.artifact_type != oci.BUNDLE or not {oci.TITLE} <= set(texts) <= {oci.TITLE, oci.VERSION}:
        raise oci.malformed(name, "it is not the index of a bundle")
    limit = view.folder.limits.payloads
    if not 0 < len(index.manifests) <= limit:
        raise fault(Code.BUNDLE_LIMIT, name, f"it lists {len(index.manifests)} payloads; 1 to {limit} are allowed")
    targets = [dict(item.annotations).get(oci.TARGET, "") for item in index.manifests]
    if targets != sorted(set(targets)) or not all(_TARGET.fullmatch(target) for target in targets):
        raise oci.malformed(name, "its payloads are not one per target, sorted by the targets' names")
    view.name, view.version = texts[oci.TITLE], texts.get(oci.VERSION)
    for target, item in zip(targets, index.manifests, strict=True):
        plain = len(item.annotations) == 1 and item.platform is not None
        if not plain or (item.media_type, item.artifact_type) != (oci.MANIFEST, oci.PAYLOAD):
            raise oci.malformed(name, f"it does not list the payload of {target} as one")
        with view.folder.noting():
            _read_payload(view, target, item, name)


def _read_payload(view: BundleView, target: str, descriptor: Descriptor, parent: str) -> None:
    name = oci.blob_name(descriptor.digest)
    manifest = Manifest.decode(_document(view, descriptor, parent, f"the manifest of {target}"), name)
    require_payload_manifest(manifest, name, view.folder.limits.layers)
    files = {layer.title: layer for layer in manifest.layers} | {CONFIG: manifest.config}
    for title in sorted(files):
        with view.folder.noting():
            _use(view, files[title], name, f"{title} of {target}")
    view.payloads.append(PayloadView(target, descriptor, files))


def require_payload_manifest(manifest: Manifest, name: str, most_layers: int = Limits().layers) -> None:
    """Raises `FarmError` BUNDLE_INVALID unless the manifest is a payload's: a config and named files, nothing else."""
    titles = [layer.title for layer in manifest.layers]
    if manifest.artifact_type != oci.PAYLOAD or manifest.subject is not None or manifest.annotations:
        raise oci.malformed(name, "it is not the manifest of a payload")
    if len(titles) > most_layers or titles != sorted(set(titles) - {CONFIG}) or not all(map(oci.is_file_name, titles)):
        raise oci.malformed(name, "its files are not a sorted list of plain file names")
    if any(layer.artifact_type or layer.platform or len(layer.annotations) != 1 for layer in manifest.layers):
        raise oci.malformed(name, "a file has more than a media type and a name")
    if manifest.config != Descriptor(oci.PAYLOAD_CONFIG, manifest.config.digest, manifest.config.size):
        raise oci.malformed(name, "its config is not that of a payload")


def _read_attestation(view: BundleView, descriptor: Descriptor) -> None:
    name = oci.blob_name(descriptor.digest)
    manifest = Manifest.decode(_document(view, descriptor, layout.INDEX, "the manifest of an attestation"), name)
    subject, layers = manifest.subject, manifest.layers
    if subject is None or len(layers) != 1 or manifest != attestation_manifest(subject, layers[0]):
        raise oci.malformed(name, "it is not the manifest of an attestation")
    if layers[0].media_type != oci.ATTESTATION:
        raise oci.malformed(name, "its statement is in an unknown format")
    _use(view, manifest.config, name, "the empty config of attestations")
    _use(view, layers[0], name, "the signed statement of an attestation")
    known = {oci.bare(item) for item in (view.descriptor, *(payload.descriptor for payload in view.payloads)) if item}
    if subject not in known and not view.faults:
        raise fault(Code.SIGNATURE_FOREIGN, name, f"it speaks about {subject.digest}, which is not in this bundle")
    view.attestations.append(AttestationView(descriptor, subject.digest, layers[0]))


def _document(view: BundleView, descriptor: Descriptor, parent: str, role: str) -> bytes:
    _use(view, descriptor, parent, role)
    return view.folder.read_blob(descriptor)


def _use(view: BundleView, descriptor: Descriptor, parent: str, role: str) -> None:
    """Note that `parent` names a blob as `role`; raises its fault when it is absent, damaged or has another size."""
    name = oci.blob_name(descriptor.digest)
    view.roles.setdefault(descriptor.digest, role)
    if known := view.folder.fault_of(name):
        raise known
    if descriptor.digest not in view.folder.blobs:
        raise fault(Code.BUNDLE_MISSING, name, f"{parent} names it as {role}", named_by=parent)
    if view.folder.blobs[descriptor.digest] != descriptor.size:
        raise fault(Code.BUNDLE_CORRUPT, parent, f"it gives {role} a size of {descriptor.size} bytes, not its own")
