"""Blobs between hosts: a repository of an OCI registry (the distribution API), digests verified on both sides.

https://github.com/opencontainers/distribution-spec. Nothing that a registry says is believed: what is fetched is hashed
here and counted against the size that the ledger or the job names.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from farm import https
from farm.https import Response, Service
from kernelfarm import digest as digests
from kernelfarm import files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.store import ContentStore

_ELSEWHERE = (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT)
"""What a registry answers for a blob that it has in a storage of its own."""
_READ_S = 300.0
"""The registry hashes what it got before it answers."""


class Token:
    """A token for the registry from `ask`, asked for again when half its life of `life_s` seconds is over."""

    def __init__(self, ask: Callable[[], str], life_s: float) -> None:
        self._ask = ask
        self._life_s = life_s
        self._text = ""
        self._until = 0.0

    def __call__(self) -> str:
        if time.monotonic() >= self._until:
            self._text = self._ask()
            self._until = time.monotonic() + self._life_s / 2
        return self._text


class Repository:
    """The blobs of one repository; an empty token is none.

    Raises REGISTRY_UNREACHABLE, REGISTRY_REFUSED beside what each method says.
    """

    def __init__(self, registry: Service, name: str, token: Callable[[], str]) -> None:
        self._registry = registry
        self._path = f"v2/{name}/blobs/"
        self._token = token

    def has(self, digest: Digest) -> bool:
        """Whether the registry says that it holds a blob."""
        with self._registry.ask("HEAD", self._path + digest, headers=self._headers()) as answer:
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return False
            if answer.status_code not in _ELSEWHERE:
                self._require(answer, HTTPStatus.OK)
        return True

    def put(self, store: ContentStore, digest: Digest) -> bool:
        """Bring a blob of the store into the registry, as `send` does. Raises as `ContentStore.open_path` too."""
        return self.send(store.open_path(digest), digest)

    def send(self, path: Path, digest: Digest) -> bool:
        """Bring a file of this digest into the registry, unless it is there; whether it was not."""
        if self.has(digest):
            return False
        with self._registry.ask("POST", self._path + "uploads/", headers=self._headers()) as answer:
            self._require(answer, HTTPStatus.ACCEPTED)
            place = answer.headers.get("Location", "")
        more = {"Content-Type": "application/octet-stream"}
        with files.coded("a blob could not be sent", path), path.open("rb") as stream:
            asked = self._registry.ask(
                "PUT",
                place,
                data=stream,
                headers=self._headers() | more,
                params={"digest": digest},
                read_s=_READ_S,
            )
            with asked as answer:
                self._require(answer, HTTPStatus.CREATED)
        return True

    def get(self, digest: Digest, size: int, path: Path) -> None:
        """Fetch a blob into the new file `path`, whole and verified or not at all.

        Reads at most `size` bytes, which must be all. Raises BLOB_MISSING, or BLOB_REFUSED for other bytes.
        """
        headers = self._headers() | {"Accept-Encoding": "identity"}
        with self._registry.ask("GET", self._path + digest, headers=headers, read_s=_READ_S) as answer:
            if answer.status_code == HTTPStatus.NOT_FOUND:
                advice = "Have it brought there again: run the build again, or have the release published again."
                raise FarmError(Code.BLOB_MISSING, f"the registry does not hold {digest}", "it answers 404", advice)
            self._require(answer, HTTPStatus.OK)
            what = "a blob could not be fetched"
            with files.coded(what, path), files.temp_file(path.parent) as (stream, temp):
                state, count = hashlib.sha256(), 0
                for piece in https.pieces(answer):
                    count += len(piece)
                    if count > size:
                        raise _refused(digest, f"it has more than {size} bytes")
                    state.update(piece)
                    stream.write(piece)
                found = digests.PREFIX + state.hexdigest()
                if count != size or found != digest:
                    raise _refused(digest, f"it has {count} of {size} bytes and the digest {found}")
                files.commit(stream, temp, path)

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _require(self, answer: Response, expected: HTTPStatus) -> None:
        if answer.status_code != expected:
            text = https.body(answer, 1000).decode("utf-8", "replace")
            why = f"it answers {answer.status_code} to {answer.request.method} {self._path}: {text}"
            advice = "Check its configuration against `farm registry`; its disk may be full."
            raise FarmError(Code.REGISTRY_REFUSED, "the blob registry refused a request", why, advice)


def fill(store: ContentStore, repository: Repository, digest: Digest, size: int, scratch: Path) -> None:
    """Have a blob in the store, from the registry where it is not there yet; `scratch` is a folder of the caller's."""
    if store.has(digest):
        return
    path = scratch / digests.hex_of(digest)
    repository.get(digest, size, path)
    try:
        store.put_file(path)
    finally:
        path.unlink(missing_ok=True)


def _refused(digest: Digest, why: str) -> FarmError:
    advice = "Run the command again; if it comes back, have the build run again, or the release published again."
    return FarmError(Code.BLOB_REFUSED, f"the blob {digest} was refused", f"{why}; nothing of it was kept", advice)
