"""A repository of a registry: documents by digest or tag, blobs by digest. What it says is believed after hashing it.

Tags here: one per version, `keep-sha256-...` for every document, so that a garbage collection which removes whatever
has no tag removes none of ours; `sha256-...`, the list of attestations about a digest, where the distribution
specification has clients look when a registry has no referrers API; and `release-log`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from farm import https
from farm.blobs import Repository
from farm.registry import access
from farm.registry.reference import Reference
from kernelfarm import canonical, digest, layout, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci import Descriptor

_ACCEPT = ", ".join((oci.MANIFEST, oci.INDEX))
_LARGEST = layout.Limits().document


class Remote:
    """One repository. Raises REGISTRY_UNREACHABLE, REGISTRY_REFUSED, CREDENTIALS_REFUSED beside what methods say."""

    def __init__(self, reference: Reference, registry: access.Registry | None = None) -> None:
        self.reference = reference
        self._registry = access.registry(reference) if registry is None else registry
        self._path = f"v2/{reference.repository}/manifests/"
        self.blobs = Repository(self._registry, reference.repository, lambda: "")

    def tagged(self, tag: str) -> bytes | None:
        """The document that a tag names; None where there is no such tag."""
        return self._get(tag)

    def document(self, wanted: Digest, size: int | None = None) -> bytes:
        """The document of a digest, verified. Raises MANIFEST_MISSING, MANIFEST_REPLACED."""
        data = self._get(wanted)
        if data is None:
            advice = "Publish the release again: what is missing is pushed, the rest stays."
            what = f"{self.reference.place} does not hold {wanted}"
            raise FarmError(Code.MANIFEST_MISSING, what, "it answers 404", advice, {"digest": wanted})
        if digest.of_bytes(data) != wanted or (size is not None and len(data) != size):
            why = f"its {len(data)} bytes have the digest {digest.of_bytes(data)}"
            what = f"{self.reference.place} gives something else for {wanted}"
            raise FarmError(Code.MANIFEST_REPLACED, what, why, "Do not use it; tell who runs it.", {"digest": wanted})
        return data

    def keep(self, descriptor: Descriptor, data: bytes) -> bool:
        """Have a document there, with a tag that keeps it; whether it was not there yet."""
        tag = keep_tag(descriptor.digest)
        if self._head(tag) == descriptor.digest and self._head(descriptor.digest) == descriptor.digest:
            return False
        self.put(tag, data, descriptor.media_type)
        return True

    def put(self, what: str, data: bytes, media_type: str) -> None:
        """Have a document there under a tag; it becomes what the tag means."""
        headers = {"Content-Type": media_type}
        with self._registry.ask("PUT", self._path + what, data=data, headers=headers) as answer:
            if answer.status_code != HTTPStatus.CREATED:
                raise self._refused(answer)

    def attestations(self, subject: Digest) -> list[Descriptor]:
        """The attestations about a digest that the repository lists, in the order of their digests."""
        found = _listed(self._get(referrers_tag(subject)) or b"{}")
        ours = [item for item in found if item.get("artifactType") == oci.ATTESTATION]
        made = []
        for item in ours:
            try:
                size = int(item["size"])
                made.append(Descriptor(oci.MANIFEST, digest.parse(str(item["digest"])), size, oci.ATTESTATION))
            except (KeyError, ValueError, TypeError, FarmError):
                continue  # the list is nobody's word: what is missing in it shows when the bundle is verified
        return sorted(made, key=lambda item: item.digest)

    def attest(self, subject: Digest, attestations: Sequence[Descriptor]) -> None:
        """Have attestations in the list about a digest, beside what others put there."""
        tag = referrers_tag(subject)
        before = self._get(tag)
        listed = {str(item["digest"]): item for item in _listed(before or b"{}") if "digest" in item}
        listed |= {item.digest: item.to_json() for item in attestations}
        value = {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": [listed[key] for key in sorted(listed)]}
        data = canonical.dumps(value)
        if data != before:
            self.put(tag, data, oci.INDEX)

    def fetch(self, blob: Descriptor, path: Path) -> None:
        """Fetch a blob into a file, unless the file is there with these bytes. Raises as `Repository.get`."""
        if not (path.is_file() and path.stat().st_size == blob.size and digest.of_file(path) == blob.digest):
            self.blobs.get(blob.digest, blob.size, path)

    def _head(self, what: str) -> Digest | None:
        with self._registry.ask("HEAD", self._path + what, headers={"Accept": _ACCEPT}) as answer:
            if answer.status_code == HTTPStatus.OK:
                return Digest(answer.headers.get("Docker-Content-Digest", ""))
        return None

    def _get(self, what: str) -> bytes | None:
        with self._registry.ask("GET", self._path + what, headers={"Accept": _ACCEPT}) as answer:
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return None
            if answer.status_code != HTTPStatus.OK:
                raise self._refused(answer)
            data = https.body(answer, _LARGEST + 1)
        if len(data) > _LARGEST:
            what = f"a document of {self.reference.place} is too large"
            raise FarmError(Code.MANIFEST_REPLACED, what, f"it has more than {_LARGEST} bytes")
        return data

    def _refused(self, answer: https.Response) -> FarmError:
        text = https.body(answer, 1000).decode("utf-8", "replace").strip()
        why = f"it answers {answer.status_code} to {answer.request.method} in {self.reference.place}: {text}"
        advice = "Check that it is an OCI registry, its disk and its log; then run the command again."
        return FarmError(Code.REGISTRY_REFUSED, "the registry refused a request", why, advice)


def keep_tag(wanted: Digest) -> str:
    """The tag that keeps a document from being collected."""
    return f"keep-sha256-{digest.hex_of(wanted)}"


def referrers_tag(subject: Digest) -> str:
    """The tag of the list of what refers to a digest (distribution specification 1.1, "Referrers Tag Schema")."""
    return f"sha256-{digest.hex_of(subject)}"


def _listed(data: bytes) -> list[dict[str, Any]]:
    """The entries of a list that other tools may have written."""
    try:
        found = json.loads(data).get("manifests", [])
    except (ValueError, AttributeError, RecursionError):
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
