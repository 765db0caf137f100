"""OCI image documents as nouns: descriptors, manifests, indexes, and the one byte string that each has.

Format: OCI image-spec 1.1 (image manifest with `artifactType` and `subject`, image index, image layout). Documents
are canonical JSON here, so that a document is a function of its noun: reading one refuses every byte that writing it
would not produce. The folder that holds them is `kernelfarm.layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kernelfarm import canonical, digest, nouns
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
EMPTY_BYTES = b"{}"

BUNDLE = "application/vnd.kernelfarm.bundle.v1"
PAYLOAD = "application/vnd.kernelfarm.payload.v1"
PAYLOAD_CONFIG = "application/vnd.kernelfarm.payload.config.v1+json"
ATTESTATION = "application/vnd.dev.sigstore.bundle.v0.3+json"

TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"
TARGET = "org.kernelfarm.target"

LAYOUT_BYTES = b'{"imageLayoutVersion":"1.0.0"}'
"""The whole content of the file `oci-layout`."""

Annotations = tuple[tuple[str, str], ...]
"""Sorted pairs."""

T = TypeVar("T", "Manifest", "Index")

_LARGEST = 1 << 53


@dataclass(frozen=True, slots=True)
class Platform:
    """Where a payload runs, in OCI's words (GOARCH and GOOS): "amd64", "linux", "v4"."""

    architecture: str
    os: str = "linux"
    variant: str = ""

    def to_json(self) -> dict[str, str]:
        """The JSON object of a descriptor's `platform`."""
        variant = {"variant": self.variant} if self.variant else {}
        return {"architecture": self.architecture, "os": self.os, **variant}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Names a blob: what it is, its digest, its size in bytes."""

    media_type: str
    digest: Digest
    size: int
    artifact_type: str = ""
    platform: Platform | None = None
    annotations: Annotations = ()

    @property
    def title(self) -> str:
        """The file name that the blob stands for, empty when it has none."""
        return dict(self.annotations).get(TITLE, "")

    def to_json(self) -> dict[str, Any]:
        """The JSON object of a descriptor."""
        value: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        if self.artifact_type:
            value["artifactType"] = self.artifact_type
        if self.platform is not None:
            value["platform"] = self.platform.to_json()
        if self.annotations:
            value["annotations"] = dict(self.annotations)
        return value


@dataclass(frozen=True, slots=True)
class Manifest:
    """An artefact: a config, layers, and, for an attestation, the `subject` that it speaks about."""

    artifact_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    subject: Descriptor | None = None
    annotations: Annotations = ()

    def encode(self) -> bytes:
        """The bytes of the document."""
        value: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": self.artifact_type,
            "config": self.config.to_json(),
            "layers": [layer.to_json() for layer in self.layers],
        }
        if self.subject is not None:
            value["subject"] = self.subject.to_json()
        if self.annotations:
            value["annotations"] = dict(self.annotations)
        return canonical.dumps(value)

    @classmethod
    def decode(cls, data: bytes, name: str) -> Manifest:
        """The manifest in `data`; raises `FarmError` about the file `name` for bytes that `encode` would not write."""
        value = _document(data, name)
        manifest = cls(
            _text(value, "artifactType", name),
            _descriptor(value.get("config"), name),
            tuple(_descriptor(item, name) for item in _array(value, "layers", name)),
            _descriptor(value["subject"], name) if "subject" in value else None,
            _annotations(value.get("annotations"), name),
        )
        return _exact(manifest, data, name)


@dataclass(frozen=True, slots=True)
class Index:
    """A list of manifests. `artifact_type` is empty in a layout's `index.json`."""

    manifests: tuple[Descriptor, ...]
    artifact_type: str = ""
    annotations: Annotations = ()

    def encode(self) -> bytes:
        """The bytes of the document."""
        value: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [manifest.to_json() for manifest in self.manifests],
        }
        if self.artifact_type:
            value["artifactType"] = self.artifact_type
        if self.annotations:
            value["annotations"] = dict(self.annotations)
        return canonical.dumps(value)

    @classmethod
    def decode(cls, data: bytes, name: str) -> Index:
        """The index in `data`; raises `FarmError` about the file `name` for bytes that `encode` would not write."""
        value = _document(data, name)
        index = cls(
            tuple(_descriptor(item, name) for item in _array(value, "manifests", name)),
            _text(value, "artifactType", name) if "artifactType" in value else "",
            _annotations(value.get("annotations"), name),
        )
        return _exact(index, data, name)


def describe(data: bytes, media_type: str, **more: Any) -> Descriptor:
    """The descriptor of bytes in memory."""
    return Descriptor(media_type, digest.of_bytes(data), len(data), **more)


def bare(descriptor: Descriptor) -> Descriptor:
    """Media type, digest and size alone: the form of a `subject`."""
    return Descriptor(descriptor.media_type, descriptor.digest, descriptor.size)


def blob_name(blob: Digest) -> str:
    """Path of a blob relative to the layout's root."""
    return f"blobs/sha256/{digest.hex_of(blob)}"


def is_file_name(text: str) -> bool:
    """Whether `text` may stand as the title of a payload's file: a plain file name, as `nouns` has it."""
    try:
        nouns.require_file_name(text)
    except FarmError:
        return False
    return True


def _document(data: bytes, name: str) -> Mapping[str, Any]:
    value = canonical.loads(data, strict=True, name=name)
    if not isinstance(value, dict):
        raise malformed(name, "the document is no object")
    return value


def _exact(noun: T, data: bytes, name: str) -> T:
    """Whatever the reader passed over (an unknown field, an empty list) shows as a difference in the bytes."""
    if noun.encode() != data:
        raise malformed(name, "it has fields or values that do not belong there")
    return noun


def _descriptor(value: Any, name: str) -> Descriptor:
    if not isinstance(value, dict):
        raise malformed(name, "a descriptor is no object")
    size = value.get("size")
    if type(size) is not int or not 0 <= size < _LARGEST:
        raise malformed(name, "a descriptor's size is no size")
    return Descriptor(
        _text(value, "mediaType", name),
        _digest(value, name),
        size,
        _text(value, "artifactType", name) if "artifactType" in value else "",
        _platform(value["platform"], name) if "platform" in value else None,
        _annotations(value.get("annotations"), name),
    )


def _digest(value: Mapping[str, Any], name: str) -> Digest:
    try:
        return digest.parse(_text(value, "digest", name))
    except FarmError as reason:
        raise malformed(name, reason.what) from reason


def _platform(value: Any, name: str) -> Platform:
    if not isinstance(value, dict):
        raise malformed(name, "a platform is no object")
    variant = _text(value, "variant", name) if "variant" in value else ""
    return Platform(_text(value, "architecture", name), _text(value, "os", name), variant)


def _annotations(value: Any, name: str) -> Annotations:
    if value is None:
        return ()
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise malformed(name, "annotations are no object of strings")
    return tuple(sorted(value.items()))


def _array(value: Mapping[str, Any], key: str, name: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise malformed(name, f"{key} is no array")
    return found


def _text(value: Mapping[str, Any], key: str, name: str) -> str:
    found = value.get(key)
    if not isinstance(found, str) or not found:
        raise malformed(name, f"{key} is no text")
    return found


def malformed(name: str, why: str) -> FarmError:
    """The error BUNDLE_INVALID about the document `name`."""
    return FarmError(Code.BUNDLE_INVALID, f"{name} is not a document of a bundle", why, detail={"file": name})
