"""A repository of a registry: documents by digest or tag, blobs by digest. What it says is believed after hashing it.

Tags here: one per version, `keep-sha256-...` for every document, so that a garbage collection which removes whatever
has no tag removes none of ours; `layout-sha256-...`, the index.json of a bundle, which says what belongs to it;
`sha256-...`, the list of attestations about a digest, where the distribution specification has other tools look when a
registry has no referrers API; and `release-log`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from farm import https
from farm.blobs import Repository
from farm.registry import access
from farm.registry.reference import Reference
from farm.release import versions
from kernelfarm import canonical, digest, layout, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.oci import Descriptor, Index

_ACCEPT = ", ".join((oci.MANIFEST, oci.INDEX))
_LARGEST = layout.Limits().document
_SHA256 = "sha256:"
_PUBLISH_AGAIN = "Have who released it publish it again: what is missing is pushed, the rest stays."
_NOT_OURS = "Do not use it; tell who runs the registry, and publish again or to another repository."
_PAGE = 1000
_PAGES = 1000


class Remote:
    """One repository. Raises REGISTRY_UNREACHABLE, REGISTRY_REFUSED, CREDENTIALS_REFUSED beside what methods say."""

    def __init__(self, reference: Reference, registry: access.Registry | None = None) -> None:
        self.reference = reference
        self._registry = access.registry(reference) if registry is None else registry
        self._path = f"v2/{reference.repository}/manifests/"
        self.blobs = Repository(self._registry, reference.repository, lambda: "")

    def tagged(self, tag: str) -> bytes | None:
        """The document that a tag names; None where there is no such tag. Raises MANIFEST_REPLACED."""
        return self._get(tag)

    def document(self, wanted: Digest, size: int | None = None) -> bytes:
        """The document of a digest, verified. Raises MANIFEST_MISSING, MANIFEST_REPLACED."""
        data = self._get(wanted)
        if data is None:
            what = f"{self.reference.place} does not hold {wanted}"
            raise FarmError(Code.MANIFEST_MISSING, what, "it answers 404", _PUBLISH_AGAIN, {"digest": wanted})
        if digest.of_bytes(data) != wanted or (size is not None and len(data) != size):
            raise self._replaced(wanted, data)
        return data

    def keep(self, descriptor: Descriptor, data: bytes) -> bool:
        """Have a document there, with a tag that keeps it; whether it was not there yet. What was put is looked at."""
        tag = keep_tag(descriptor.digest)
        if self._head(tag) == descriptor.digest and self._head(descriptor.digest) == descriptor.digest:
            return False
        self.put(tag, data, descriptor.media_type)
        if self._get_whole(tag) != data:
            raise self._not_kept(tag)
        return True

    def put(self, what: str, data: bytes, media_type: str) -> None:
        """Have a document there under a tag; it becomes what the tag means."""
        headers = {"Content-Type": media_type}
        with self._registry.ask("PUT", self._path + what, data=data, headers=headers) as answer:
            if answer.status_code != HTTPStatus.CREATED:
                raise self._refused(answer)

    def lay_out(self, bundle: Digest, top: bytes) -> bool:
        """Have this index.json in the place of the one before of a bundle; whether it was another."""
        tag = layout_tag(bundle)
        if self._get_whole(tag) == top:
            return False
        self.put(tag, top, oci.INDEX)
        return True

    def layout(self, bundle: Digest) -> Index:
        """The index.json of a bundle, as its publisher put it there. Raises MANIFEST_MISSING, MANIFEST_REPLACED."""
        name = f"{self.reference.place}:{layout_tag(bundle)}"
        data = self._get(layout_tag(bundle))
        if data is None:
            why = "nothing says which attestations belong to the bundle"
            raise FarmError(Code.MANIFEST_MISSING, f"the tag {name} is gone", why, _PUBLISH_AGAIN, {"digest": bundle})
        try:
            return Index.decode(data, name)
        except FarmError as reason:
            why = f"{reason.what}: {reason.why}"
            raise FarmError(
                Code.MANIFEST_REPLACED, f"{name} is no index.json of a bundle", why, _PUBLISH_AGAIN, {"digest": bundle}
            ) from reason

    def versions(self) -> list[str]:
        """The tags of the repository that name a bundle of ours, in the order of the registry."""
        return [tag for tag in self._tags() if versions.is_version(tag) and self._is_bundle(tag)]

    def attest(self, subject: Digest, attestations: Sequence[Descriptor]) -> None:
        """Have attestations in the list about a digest, beside what others put there. Other tools read it, not we.

        What others put there is left out where the registry does not take it any more, as it names what is gone.
        """
        tag = referrers_tag(subject)
        before = self._get_whole(tag)
        listed = {str(item["digest"]): item for item in _listed(before or b"{}") if "digest" in item}
        ours = {str(item.digest): item.to_json() for item in attestations}
        try:
            data = _list_of(listed | ours)
            if data == before:
                return
            self.put(tag, data, oci.INDEX)
        except FarmError as error:
            if error.code not in (Code.REGISTRY_REFUSED, Code.NOT_JSON) or listed.keys() <= ours.keys():
                raise
            self.put(tag, _list_of(ours), oci.INDEX)
        there = {str(item.get("digest")) for item in _listed(self._get_whole(tag) or b"{}")}
        if not ours.keys() <= there:  # others may have added theirs meanwhile
            raise self._not_kept(tag)

    def fetch(self, blob: Descriptor, path: Path) -> None:
        """Fetch a blob into a file, unless the file is there with these bytes. Raises as `Repository.get`."""
        if not (path.is_file() and path.stat().st_size == blob.size and digest.of_file(path) == blob.digest):
            self.blobs.get(blob.digest, blob.size, path)

    def _tags(self) -> list[str]:
        """All tags, page by page; an answer of another form ends the list."""
        found: list[str] = []
        for _ in range(_PAGES):
            params = {"n": str(_PAGE), **({"last": found[-1]} if found else {})}
            path = f"v2/{self.reference.repository}/tags/list"
            with self._registry.ask("GET", path, params=params) as answer:
                if answer.status_code == HTTPStatus.NOT_FOUND:
                    return found
                if answer.status_code != HTTPStatus.OK:
                    raise self._refused(answer)
                page = _tags_of(https.body(answer, _LARGEST))
            known = set(found)
            new = [tag for tag in page if tag not in known]
            found += new
            if len(page) < _PAGE or not new:
                break
        return found

    def _is_bundle(self, tag: str) -> bool:
        data = self._get_whole(tag) or b"{}"
        try:
            return bool(json.loads(data).get("artifactType") == oci.BUNDLE)
        except (ValueError, AttributeError, RecursionError):
            return False

    def _get_whole(self, tag: str) -> bytes | None:
        """As `_get`, for what is written anew: None for a document that is damaged too."""
        try:
            return self._get(tag)
        except FarmError as error:
            if error.code is Code.MANIFEST_REPLACED:
                return None
            raise

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
            said = answer.headers.get("Docker-Content-Digest", "")
        if len(data) > _LARGEST:
            what = f"a document of {self.reference.place} is too large"
            raise FarmError(Code.MANIFEST_REPLACED, what, f"it has more than {_LARGEST} bytes", _NOT_OURS)
        if said.startswith(_SHA256) and digest.of_bytes(data) != said:
            raise self._replaced(said, data)  # by a tag too: the tag is where it was, what it names is not
        return data

    def _replaced(self, wanted: str, data: bytes) -> FarmError:
        why = f"its {len(data)} bytes have the digest {digest.of_bytes(data)}"
        what = f"{self.reference.place} gives something else for {wanted}"
        return FarmError(Code.MANIFEST_REPLACED, what, why, "Do not use it; tell who runs it.", {"digest": wanted})

    def _not_kept(self, tag: str) -> FarmError:
        """The error that the registry says to have what it has not; of what no later step reads again."""
        what = f"the registry took {self.reference.place}:{tag} and does not have it"
        advice = "Check its disk and its log, then publish again."
        return FarmError(Code.REGISTRY_REFUSED, what, "it answered 201, and shows something else there now", advice)

    def _refused(self, answer: https.Response) -> FarmError:
        text = https.body(answer, 1000).decode("utf-8", "replace").strip()
        why = f"it answers {answer.status_code} to {answer.request.method} in {self.reference.place}: {text}"
        advice = "Check that it is an OCI registry, its disk and its log; then run the command again."
        return FarmError(Code.REGISTRY_REFUSED, "the registry refused a request", why, advice)


def keep_tag(wanted: Digest) -> str:
    """The tag that keeps a document from being collected."""
    return f"keep-sha256-{digest.hex_of(wanted)}"


def layout_tag(bundle: Digest) -> str:
    """The tag of the index.json of a bundle: one for each, replaced as a whole and never merged."""
    return f"layout-sha256-{digest.hex_of(bundle)}"


def referrers_tag(subject: Digest) -> str:
    """The tag of the list of what refers to a digest (distribution specification 1.1, "Referrers Tag Schema")."""
    return f"sha256-{digest.hex_of(subject)}"


def _list_of(entries: Mapping[str, Any]) -> bytes:
    value = {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": [entries[key] for key in sorted(entries)]}
    return canonical.dumps(value)


def _listed(data: bytes) -> list[dict[str, Any]]:
    """The entries of a list that other tools may have written."""
    try:
        found = json.loads(data).get("manifests", [])
    except (ValueError, AttributeError, RecursionError):
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _tags_of(data: bytes) -> list[str]:
    try:
        found = json.loads(data).get("tags") or []
    except (ValueError, AttributeError, RecursionError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []
