"""What a payload's folder holds, and the OCI manifest that is its identity."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import digest, files, golden, links, oci
from kernelfarm.device import DeviceIndex, IndexEntry
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.layout import fault
from kernelfarm.oci import TITLE, Descriptor, Manifest
from kernelfarm.oci_bundle import CONFIG, BundleView

HEADER = "media.hdr"
KERNELS = "kernels.so"
WEIGHTS = "weights.bin"
PROGRAM = "media-run"
LIBRARY = "libmedia_engine.so"
INCLUDE = "media_engine.h"
HARDENING = "hardening.json"
GOLDEN = golden.NAME
LINKS = links.NAME
NOTICE = "NOTICE"
SBOM = "sbom.cdx.json"

MEDIA_TYPES: Mapping[str, str] = {
    CONFIG: oci.PAYLOAD_CONFIG,
    GOLDEN: "application/vnd.kernelfarm.golden.v1",
    HARDENING: "application/vnd.kernelfarm.hardening.v1+json",
    HEADER: "application/vnd.kernelfarm.header.v1",
    INCLUDE: "application/vnd.kernelfarm.include.v1",
    KERNELS: "application/vnd.kernelfarm.kernels.v1",
    LIBRARY: "application/vnd.kernelfarm.library.v1",
    LINKS: "application/vnd.kernelfarm.links.v1+json",
    NOTICE: "text/plain",
    PROGRAM: "application/vnd.kernelfarm.program.v1",
    SBOM: "application/vnd.cyclonedx+json",
    WEIGHTS: "application/vnd.kernelfarm.weights.v1",
}
"""Every file of a payload, all of them required, with its media type."""


@dataclass(frozen=True, slots=True)
class PayloadFolder:
    """A payload's files on disk: `paths` and `blobs` by name, `manifest` the document whose digest is the payload's."""

    paths: Mapping[str, Path]
    blobs: Mapping[str, Descriptor]
    manifest: Manifest

    @property
    def digest(self) -> Digest:
        """The payload's digest."""
        return digest.of_bytes(self.manifest.encode())


def read_folder(folder: Path) -> PayloadFolder:
    """The payload in `folder`, a pure function of the files' names and bytes.

    Raises `FarmError` PAYLOAD_INVALID for a missing, unknown or special file, class ENVIRONMENT for one that is
    unreadable.
    """
    with files.coded("a payload could not be read", folder):
        found = {path.name: path for path in sorted(folder.iterdir())}
        if wrong := sorted(set(found) ^ set(MEDIA_TYPES)):
            verb = "unknown" if wrong[0] in found else "missing"
            raise _invalid(wrong[0], f"the file {wrong[0]} is {verb}")
        blobs = {name: _describe(name, path) for name, path in found.items()}
    return PayloadFolder(found, blobs, manifest_of(blobs))


def manifest_of(blobs: Mapping[str, Descriptor]) -> Manifest:
    """The manifest of a payload with these files."""
    layers = tuple(blobs[name] for name in sorted(blobs) if name != CONFIG)
    return Manifest(oci.PAYLOAD, blobs[CONFIG], layers)


def payload_digest(folder: Path) -> Digest:
    """Digest of the payload in `folder`; raises as `read_folder`."""
    return read_folder(folder).digest


@contextmanager
def as_file(view: BundleView, blob: Descriptor, title: str) -> Iterator[Path]:
    """A private copy of a bundle's blob under its title: tools that take a path then read the bytes that were hashed.

    Raises `FarmError` BUNDLE_CHANGED when these are no longer the blob's, class ENVIRONMENT for a full disk.
    """
    with tempfile.TemporaryDirectory(prefix="farm-") as folder:
        copy = Path(folder) / title
        with files.coded(f"{title} could not be copied", copy):
            shutil.copyfile(view.folder.blob_path(blob), copy, follow_symlinks=False)
            if copy.is_symlink() or digest.of_file(copy) != blob.digest:
                raise fault(
                    Code.BUNDLE_CHANGED, oci.blob_name(blob.digest), "its bytes are no longer those that it names"
                )
        yield copy


def _describe(name: str, path: Path) -> Descriptor:
    if path.is_symlink() or not path.is_file():
        raise _invalid(name, f"{name} is not a plain file")
    title = () if name == CONFIG else ((TITLE, name),)
    return Descriptor(MEDIA_TYPES[name], digest.of_file(path), path.stat().st_size, annotations=title)


def _invalid(name: str, why: str) -> FarmError:
    return FarmError(Code.PAYLOAD_INVALID, "the folder is not a payload", why, detail={"file": name})


def device_index(headers: Sequence[Descriptor]) -> bytes:
    """The bytes of `media.idx` for payloads with these headers, in the order of the image index."""
    return DeviceIndex(tuple(IndexEntry(item.digest, item.size) for item in headers)).to_bytes()
