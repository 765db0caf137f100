"""Writes documents and signed statements into a bundle's folder that nobody sees yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelfarm import digest, layout, oci, oci_bundle
from kernelfarm.oci import Descriptor
from signing.statement import Statement


def put(staged: Path, data: bytes) -> None:
    """Have a blob in the folder. One that is there stays: it may be a link into a bundle in use."""
    place = staged / oci.blob_name(digest.of_bytes(data))
    if not place.exists():
        place.write_bytes(data)


def put_statements(
    staged: Path, subjects: Iterable[Descriptor], statements: Sequence[Statement], sealed: Sequence[bytes]
) -> list[Descriptor]:
    """Have signed statements in the folder, with the manifests that tie them to their subjects; gives the manifests."""
    known = {item.digest: item for item in subjects}
    put(staged, oci.EMPTY_BYTES)
    made = []
    for statement, data in zip(statements, sealed, strict=True):
        envelope = oci.describe(data, oci.ATTESTATION)
        manifest = oci_bundle.attestation_manifest(known[statement.subjects[0].digest], envelope).encode()
        put(staged, data)
        put(staged, manifest)
        made.append(oci.describe(manifest, oci.MANIFEST))
    return made


def write_top(staged: Path, index: Descriptor, attestations: Iterable[Descriptor]) -> None:
    """Write index.json: the bundle and its attestations."""
    (staged / layout.INDEX).write_bytes(oci_bundle.top_index(index, tuple(attestations)).encode())
