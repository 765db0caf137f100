"""How a registry of releases is reached: HTTPS, whatever credentials it asks for, storage that lies elsewhere.

Credentials are FARM_REGISTRY_USER and FARM_REGISTRY_PASSWORD for the registry FARM_REGISTRY_HOST, else what
`docker login` wrote for a registry; they go to that registry and to the token service that it names, over TLS or to
this machine's loopback interface, and nowhere else: neither a lock file nor a mirror can have them sent elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from farm import https
from farm.https import READ_S, Response, Site
from farm.registry.reference import Reference
from kernelfarm.errors import Code, FarmError

_PARAMETER = re.compile(r'([a-zA-Z]+)="([^"]*)"')
_REDIRECTS = (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT)
_HOPS = 3
_DOCKER_HUB = "https://index.docker.io/v1/"


class Registry(Site):
    """The registry of a reference. `credentials` is "user:password", empty for none."""

    def __init__(self, reference: Reference, *, trusted: Path | None = None, credentials: str = "") -> None:
        scheme = "http" if reference.is_local and trusted is None else "https"
        super().__init__(f"{scheme}://{reference.host}", unreachable=Code.REGISTRY_UNREACHABLE, trusted=trusted)
        self._place = reference.place
        self._trusted = trusted
        self._credentials = credentials
        self._authorization = ""

    @contextmanager
    def ask(
        self,
        method: str,
        path: str,
        *,
        data: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        read_s: float = READ_S,
    ) -> Iterator[Response]:
        """As `Service.ask`; raises CREDENTIALS_REFUSED too. A GET follows the registry to where its blobs lie."""
        for attempt in range(2):
            with ExitStack() as stack:
                more = {"Authorization": self._authorization} if self._authorization else {}
                asked = super().ask(
                    method, path, data=data, headers={**(headers or {}), **more}, params=params, read_s=read_s
                )
                answer = stack.enter_context(asked)
                if answer.status_code == HTTPStatus.UNAUTHORIZED and attempt == 0:
                    challenge = answer.headers.get("WWW-Authenticate", "")
                elif answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    raise self._refused(f"it answers {answer.status_code} to {method}")
                elif method == "GET" and answer.status_code in _REDIRECTS:
                    yield stack.enter_context(self._elsewhere(answer, headers or {}, read_s))
                    return
                else:
                    yield answer
                    return
            self._authorization = self._answer_to(challenge)
            if data is not None and not isinstance(data, bytes):
                data.seek(0)

    @contextmanager
    def _elsewhere(self, answer: Response, headers: Mapping[str, str], read_s: float) -> Iterator[Response]:
        """What lies where an answer points to: blobs in a storage of their own. No credentials go there."""
        with ExitStack() as stack:
            for _ in range(_HOPS):
                address, site = self._site(answer.headers.get("Location", ""), "storage", answer.url)
                answer = stack.enter_context(site.ask("GET", address, headers=headers, read_s=read_s))
                if answer.status_code not in _REDIRECTS:
                    yield answer
                    return
            raise self._failed(f"it points on more than {_HOPS} times")

    def _site(self, place: str, what: str, base: str = "") -> tuple[str, Site]:
        """The whole address of a place that an answer names, and whoever serves it."""
        try:
            address = urljoin(base, place)
            parts = urlsplit(address)
        except ValueError as reason:
            raise self._failed(f"its {what} is at {place!r}, which is no address") from reason
        local = Reference(parts.netloc, "").is_local and self.url.startswith("http://")
        if not parts.netloc or parts.username or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
            raise self._failed(f"its {what} is at {address!r}, which is not reached over TLS")
        url = f"{parts.scheme}://{parts.netloc}"
        return address, Site(url, unreachable=Code.REGISTRY_UNREACHABLE, trusted=self._trusted)

    def _answer_to(self, challenge: str) -> str:
        """The value of the header Authorization that a challenge asks for (RFC 7235; distribution's token scheme)."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self._credentials:
            return "Basic " + base64.b64encode(self._credentials.encode()).decode()
        if scheme.lower() != "bearer":
            raise self._refused(f"it asks for {scheme or 'nothing that it names'}, and no credentials are known")
        asked = dict(_PARAMETER.findall(rest))
        realm, service = self._site(asked.get("realm", ""), "token service")
        basic = base64.b64encode(self._credentials.encode()).decode()
        headers = {"Authorization": f"Basic {basic}"} if self._credentials else {}
        params = {key: asked[key] for key in ("service", "scope") if key in asked}
        with service.ask("GET", realm, headers=headers, params=params) as answer:
            if answer.status_code != HTTPStatus.OK:
                raise self._refused(f"its token service answers {answer.status_code}")
            try:
                said = json.loads(https.body(answer))
                token = said.get("token") or said["access_token"]
                if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                    raise ValueError("the token is no text")
            except (ValueError, KeyError, TypeError, AttributeError) as reason:
                raise self._refused("its token service gives no token") from reason
        return f"Bearer {token}"

    def _refused(self, why: str) -> FarmError:
        advice = (
            "Run `docker login`, or set FARM_REGISTRY_HOST, FARM_REGISTRY_USER and FARM_REGISTRY_PASSWORD; credential "
            "helpers are not used."
        )
        return FarmError(Code.CREDENTIALS_REFUSED, f"the registry does not let us into {self._place}", why, advice)


def registry(reference: Reference, environ: Mapping[str, str] | None = None) -> Registry:
    """The registry of a reference, as the environment says: credentials, and FARM_REGISTRY_CA, a PEM file.

    Raises `FarmError` IDENTITY_INVALID for such a file that holds no certificate.
    """
    given = os.environ if environ is None else environ
    trusted = given.get("FARM_REGISTRY_CA")
    return Registry(
        reference, trusted=Path(trusted) if trusted else None, credentials=credentials(reference.host, given)
    )


def credentials(host: str, given: Mapping[str, str]) -> str:
    """ "user:password" for a host: the farm's variables, else docker's config.json; empty where neither knows any.

    The farm's variables are for the host that FARM_REGISTRY_HOST names, with its port if it has one, and no other.
    """
    user = given.get("FARM_REGISTRY_USER")
    if user and given.get("FARM_REGISTRY_HOST") == host:
        return f"{user}:{given.get('FARM_REGISTRY_PASSWORD', '')}"
    folder = Path(given.get("DOCKER_CONFIG") or Path(given.get("HOME", "/nonexistent")) / ".docker")
    try:
        entries: Any = json.loads((folder / "config.json").read_bytes()).get("auths", {})
        names = [host, f"https://{host}", *([_DOCKER_HUB] if host in ("docker.io", "registry-1.docker.io") else [])]
        for name in names:
            if text := entries.get(name, {}).get("auth"):
                return base64.b64decode(text, validate=True).decode()
    except (
        OSError,
        ValueError,
        AttributeError,
        TypeError,
        binascii.Error,
    ):  # somebody else's file: no credentials then
        return ""
    return ""
