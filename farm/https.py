"""HTTPS; the only module that imports `requests`.

`Peer` is a service of the farm: it must show a certificate of the farm's own authority for a role's name
(`farm.gate.authority`), whatever its address, and nothing of the system's trust store counts. `Site` is anybody else's,
a registry of releases: believed as the system's trust store says. No proxies and no redirects for either.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

CONNECT_S = 10.0
READ_S = 60.0
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n", re.DOTALL)
_ANSWER_LIMIT = 4 << 20

Response = requests.Response


class Service:
    """What both kinds of services have in common: one address, and requests that stay there."""

    url: str
    _unreachable: Code
    _session: requests.Session
    _advice = "Check the address, the network and whether the service runs."

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
        """An answer, of whatever status, its body unread. `path` may be a whole address of this very service.

        Raises `FarmError` of the code `unreachable`, for a break in mid-body too.
        """
        try:
            address = urljoin(self.url, path)
        except ValueError as reason:  # "https://[x", by whoever sent it
            raise self._failed(f"{path!r} is no address") from reason
        if not address.startswith(self.url):
            raise self._failed(f"it points to another service, {address!r}")
        try:
            response = self._session.request(
                method,
                address,
                data=data,
                headers=dict(headers or {}),
                params=dict(params or {}),
                timeout=(CONNECT_S, read_s),
                allow_redirects=False,
                stream=True,
            )
        except (
            requests.RequestException,
            ValueError,
            OSError,
        ) as reason:  # ValueError: of where it points to
            raise self._failed(_why(reason)) from reason
        try:
            with response:
                yield response
        except (requests.RequestException, OSError) as reason:
            raise self._failed(_why(reason)) from reason

    def _failed(self, why: str) -> FarmError:
        return FarmError(self._unreachable, f"{self.url} does not answer", why, self._advice)


class Site(Service):
    """A service at `url` ("https://host:port") that the system's trust store vouches for, or the PEM file `trusted`.

    Plain "http://" is for this machine's loopback interface: who calls sees to that. Raises `FarmError`
    IDENTITY_INVALID for a file that holds no certificate.
    """

    def __init__(self, url: str, *, unreachable: Code, trusted: Path | None = None) -> None:
        self.url = f"{url.rstrip('/')}/"
        self._unreachable = unreachable
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount("https://", _Adapter(_public_context(trusted)))


class Peer(Service):
    """The service of role `name` at `url` ("https://host:port"); `unreachable` is the code when there is no answer.

    `authority` is the PEM file of the farm's certificate (its last one is believed), `identity` one with our own key
    and certificate. Raises `FarmError` USAGE for an address of another form. Threads may share a peer.
    """

    _advice = (
        f"{Service._advice[:-1]}; a worker's certificate lasts 90 days, and the registry shows a renewed one "
        "only after it was started again."
    )

    def __init__(
        self, url: str, *, name: str, authority: Path, identity: Path, key: Path | None = None, unreachable: Code
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.netloc or parts.path.strip("/") or parts.query or parts.username:
            raise FarmError(Code.USAGE, f"{url!r} is not the address of a service", "it must be https://HOST:PORT")
        self.url = f"https://{parts.netloc}/"
        self._unreachable = unreachable
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount("https://", _Adapter(_context(authority, identity, key), name))


def body(response: Response, limit: int = _ANSWER_LIMIT) -> bytes:
    """An answer's whole body; more than `limit` bytes are cut off, so that it will not parse."""
    found = bytearray()
    for piece in response.iter_content(1 << 16):
        found += piece
        if len(found) > limit:
            break
    return bytes(found[:limit])


class _Adapter(HTTPAdapter):
    def __init__(self, context: ssl.SSLContext, name: str = "") -> None:
        self._context = context
        self._name = name
        super().__init__()

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **more: Any) -> None:
        more |= {"ssl_context": self._context}
        if self._name:
            more |= {"server_hostname": self._name, "assert_hostname": self._name}
        super().init_poolmanager(connections, maxsize, block, **more)

    def cert_verify(self, conn: object, url: object, verify: object, cert: object) -> None:
        """Nothing: requests would add the public authorities to the context."""


def _context(authority: Path, identity: Path, key: Path | None) -> ssl.SSLContext:
    with files.coded("a certificate could not be read", authority):
        certificates = _CERTIFICATE.findall(authority.read_text("ascii", "replace"))
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(cadata=certificates[-1])
            context.load_cert_chain(identity, key)
        except (ssl.SSLError, IndexError) as reason:
            why = f"{identity}: {reason}"
            raise FarmError(Code.IDENTITY_INVALID, "a certificate cannot be used", why) from reason
    return context


def _public_context(trusted: Path | None) -> ssl.SSLContext:
    if trusted is None:
        return ssl.create_default_context()
    with files.coded("a certificate could not be read", trusted):
        try:
            return ssl.create_default_context(cadata=trusted.read_text("ascii", "replace"))
        except ssl.SSLError as reason:
            why = f"{trusted}: {reason}"
            raise FarmError(Code.IDENTITY_INVALID, "a certificate cannot be used", why) from reason


def _why(reason: BaseException) -> str:
    """The innermost cause, which is what a person can use."""
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    return str(reason) or type(reason).__name__
