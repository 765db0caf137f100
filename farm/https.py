"""HTTPS; the only module that imports `requests`.

`Peer` is a service of the farm: it must show a certificate of the farm's own authority for a role's name
(`farm.gate.authority`), whatever its address, and nothing of the system's trust store counts. `Site` is anybody else's,
a registry of releases: believed as the system's trust store says. No proxies and no redirects for either.

No request lasts for ever: what comes and what goes may be slow, but over all of it not slower than `SLOWEST`.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

CONNECT_S = 10.0
READ_S = 60.0
SLOWEST = 4 << 10
"""Bytes a second: a request and its answer get the time limit of silence, and a second for so many bytes, in all."""
_CHUNK = 1 << 16
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

        `read_s` is how long it may be silent, in one piece or (beyond what `SLOWEST` grants) in all. Raises `FarmError`
        of the code `unreachable`, for a break in mid-body too.
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
        except BrokenBodyError as reason:
            raise self._failed(_why(reason)) from reason

    def _failed(self, why: str) -> FarmError:
        return FarmError(self._unreachable, f"{self.url} does not answer", why, self._advice)


class BrokenBodyError(Exception):
    """An answer whose body broke off or came too slowly. No `OSError`: it is no fault of a file it is written to."""


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
        adapter = _Adapter(_public_context(trusted))
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)


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
            what = f"{url!r} is not the address of a service"
            raise FarmError(Code.USAGE, what, "it must be https://HOST:PORT", "Give it in this form.")
        self.url = f"https://{parts.netloc}/"
        self._unreachable = unreachable
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount("https://", _Adapter(_context(authority, identity, key), name))


def body(response: Response, limit: int = _ANSWER_LIMIT) -> bytes:
    """An answer's whole body; more than `limit` bytes are cut off, so that it will not parse."""
    found = bytearray()
    for piece in pieces(response):
        found += piece
        if len(found) > limit:
            break
    return bytes(found[:limit])


def pieces(response: Response) -> Iterator[bytes]:
    """An answer's body as it comes; raises `BrokenBodyError`, which `Service.ask` turns into its error."""
    try:
        yield from response.iter_content(_CHUNK)
    except (requests.RequestException, OSError) as reason:
        raise BrokenBodyError(_why(reason)) from reason


class _Pace:
    """What is left of a limit of `silence_s` seconds and one more for each `SLOWEST` bytes. Only waiting counts."""

    def __init__(self, silence_s: float) -> None:
        self._left = silence_s

    def left(self) -> float:
        """Seconds; raises `TimeoutError` when there are none."""
        if self._left <= 0:
            raise TimeoutError(f"it is slower than {SLOWEST} bytes a second")
        return self._left

    def moved(self, count: int, since: float) -> None:
        """So many bytes moved in the time since a moment of the clock."""
        self._left += count / SLOWEST - (time.monotonic() - since)


class _PacedSocket(io.RawIOBase):
    """The bytes of an answer, of its head too: a limit between two bytes alone lets one byte a second last for ever."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._sock = raw, sock
        self._silence_s = sock.gettimeout() or READ_S
        self._pace = _Pace(self._silence_s)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(min(self._silence_s, self._pace.left()))
        since = time.monotonic()
        count: int | None = self._raw.readinto(buffer)
        self._pace.moved(count or 0, since)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _PacedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_PacedSocket(self.fp.detach(), sock))


class _Paced(HTTPConnection):
    response_class = _PacedResponse
    _pace = _Pace(READ_S)

    def putrequest(self, *arguments: Any, **options: Any) -> None:
        """As the base: a request begins."""
        self._pace = _Pace(READ_S)
        super().putrequest(*arguments, **options)

    def send(self, data: Any) -> None:
        """As the base, piece by piece: the socket's time limit is for one piece, the pace for all."""
        for start in range(0, len(data), self.blocksize):
            self._pace.left()
            since, piece = time.monotonic(), data[start : start + self.blocksize]
            super().send(piece)
            self._pace.moved(len(piece), since)


class _PacedTls(_Paced, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Paced


class _PoolTls(HTTPSConnectionPool):
    ConnectionCls = _PacedTls


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
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _PoolTls}

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
            advice = "Have the farm that `farm serve` runs for make a new identity, and join with that."
            raise FarmError(Code.IDENTITY_INVALID, "a certificate cannot be used", why, advice) from reason
    return context


def _public_context(trusted: Path | None) -> ssl.SSLContext:
    if trusted is None:
        return ssl.create_default_context()
    with files.coded("a certificate could not be read", trusted):
        try:
            return ssl.create_default_context(cadata=trusted.read_text("ascii", "replace"))
        except ssl.SSLError as reason:
            why = f"{trusted}: {reason}"
            advice = "Name a file of certificates in PEM as FARM_REGISTRY_CA, or none."
            raise FarmError(Code.IDENTITY_INVALID, "a certificate cannot be used", why, advice) from reason


def _why(reason: BaseException) -> str:
    """The innermost cause, which is what a person can use."""
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    return str(reason) or type(reason).__name__
