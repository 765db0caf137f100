"""Who may work from elsewhere: a record for each enrolled worker, read anew at every request.

A worker is who its certificate says: the gate takes the name from the certificate and asks that the record of that name
holds this very certificate and is not revoked. So a revocation holds from the next request on, and a certificate of
another worker's name helps nobody.

Enrolment gives a ticket, which holds a key that travelled. It is good for a day and for one certificate: that of the
key which the worker's host makes for itself (`join`). Then it is worth nothing, and who shows it again is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from farm.gate import authority
from farm.gate.authority import TICKET_HOURS, Authority
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_LIMIT = 63


@dataclass(frozen=True, slots=True)
class Identity:
    """An enrolled worker. `fingerprint`: SHA-256 of its certificate in hex, until it has joined that of its ticket;
    times are seconds since 1970 UTC.
    """

    SCHEMA: ClassVar[str] = "worker-identity/1"
    name: str
    fingerprint: str
    enrolled_at: float
    expires_at: float
    revoked_at: float | None = None

    def state(self, now: float) -> str:
        """ "revoked", "expired" or "good"."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if now >= self.expires_at else "good"


@dataclass(frozen=True, slots=True)
class Ticket:
    """The newest ticket of a worker: the fingerprint of its certificate, and what it gave, empty before: the SHA-256
    of the worker's public key in hex, and that key's certificate (PEM).
    """

    SCHEMA: ClassVar[str] = "worker-ticket/1"
    fingerprint: str
    key: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class Identities:
    """The records of an authority's workers."""

    authority: Authority

    @property
    def folder(self) -> Path:
        """A JSON file for each."""
        return self.authority.folder / "workers"

    def enrol(self, name: str, *, force: bool = False, hours: float = TICKET_HOURS) -> tuple[Identity, bytes]:
        """Enrol a worker: its record, and its ticket, which is kept nowhere here and good for so many hours.

        With `force` an enrolled (or revoked) name gets a new ticket and what it had is refused from then on.
        Raises `FarmError` IDENTITY_EXISTS, or IDENTITY_INVALID for a name that cannot be one.
        """
        path = self._path(name)
        with files.coded("a worker could not be enrolled", path):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._tickets.mkdir(mode=0o700, exist_ok=True)
            with files.locked(self.folder):
                if path.exists() and not force:
                    why = f"its record is {path}"
                    advice = "Choose another name, or replace its certificate with --force."
                    raise FarmError(Code.IDENTITY_EXISTS, f"the worker {name!r} is enrolled already", why, advice)
                secret, certificate = authority.issue_ticket(self.authority, name, hours=hours)
                made = Identity(name, fingerprint(certificate), time.time(), _end(certificate))
                self._keep(self._tickets / path.name, Ticket(made.fingerprint))
                self._keep(path, made)
        return made, secret

    def join(self, shown: bytes | None, request: bytes) -> tuple[str, bytes]:
        """Certify the key of a certificate request (PEM), once, for who shows a ticket (DER); the worker's name and
        its certificate (PEM). Who did not get the answer may ask again with the same key.

        Raises `FarmError` GATE_REFUSED, GATE_PROTOCOL for a request that is none, or as the disk does.
        """
        ticket, found = self._holder(shown)
        public = _public_key(request)
        name, key = found.name, _key_digest(public)
        with files.coded("a worker could not join", self.folder), files.locked(self.folder):
            found = self._of(name)
            self._require_good(found)
            given = self._ticket(name)
            if found.fingerprint == fingerprint(ticket):
                made = authority.issue_worker(self.authority, name, public)
                text = authority.pem_of(made)
                self._keep(self._tickets / f"{name}.json", Ticket(fingerprint(ticket), key, text.decode()))
                joined = replace(found, fingerprint=fingerprint(made), expires_at=_end(made))
                self._keep(self._path(name), joined)
                return name, text
        if given is not None and (given.fingerprint, given.key) == (fingerprint(ticket), key):
            return name, given.certificate.encode()
        raise refused(
            f"the ticket of {name} was used before, or replaced: if its host has not joined, somebody else has"
        )

    def is_invited(self, found: Identity) -> bool:
        """Whether a worker has a ticket and has not joined."""
        given = self._ticket(found.name)
        return given is not None and given.fingerprint == found.fingerprint

    def revoke(self, name: str) -> Identity:
        """Refuse a worker from now on; a revoked one stays so. Raises `FarmError` IDENTITY_UNKNOWN."""
        with files.coded("a worker could not be revoked", self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with files.locked(self.folder):
                found = self.get(name)
                if found.revoked_at is None:
                    found = replace(found, revoked_at=time.time())
                    self._keep(self._path(name), found)
        return found

    def get(self, name: str) -> Identity:
        """The record of a worker; raises `FarmError` IDENTITY_UNKNOWN, or as `canonical.decode`."""
        path = self._path(name)
        try:
            with files.coded("a worker's record could not be read", path):
                return canonical.decode(Identity, path.read_bytes(), name=str(path))
        except FarmError as reason:
            if reason.code is not Code.FILE_MISSING:
                raise
            advice = "`farm worker list` shows who is."
            raise FarmError(
                Code.IDENTITY_UNKNOWN, f"no worker {name!r} is enrolled", "there is no record of it", advice
            ) from reason

    def all(self) -> tuple[Identity, ...]:
        """The records by name."""
        if not self.folder.is_dir():
            return ()
        return tuple(self.get(path.stem) for path in sorted(self.folder.glob("*.json")))

    def require(self, certificate: bytes | None) -> Identity:
        """Who shows this certificate (DER). Raises `FarmError` GATE_REFUSED unless it is an enrolled worker's own."""
        shown, found = self._shown(certificate)
        if authority.is_ticket(shown):
            raise refused(f"{found.name} has shown its ticket, which is for joining alone")
        if fingerprint(shown) != found.fingerprint:
            raise refused(f"the certificate of {found.name} was replaced by a newer one")
        self._require_good(found)
        return found

    def _holder(self, certificate: bytes | None) -> tuple[x509.Certificate, Identity]:
        shown, found = self._shown(certificate)
        if not authority.is_ticket(shown):
            raise refused(f"{found.name} has joined already")
        return shown, found

    def _shown(self, certificate: bytes | None) -> tuple[x509.Certificate, Identity]:
        if not certificate:
            raise refused("it shows no certificate")
        shown = x509.load_der_x509_certificate(certificate)
        names = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return shown, self._of(str(names[0].value) if len(names) == 1 else "")

    def _of(self, name: str) -> Identity:
        try:
            return self.get(name)
        except FarmError as reason:
            if reason.code not in (Code.IDENTITY_UNKNOWN, Code.IDENTITY_INVALID):
                raise
            raise refused(f"no worker {name!r} is enrolled") from reason

    def _require_good(self, found: Identity) -> None:
        if (state := found.state(time.time())) != "good":
            raise refused(f"the identity of {found.name} is {state}")

    @property
    def _tickets(self) -> Path:
        return self.authority.folder / "tickets"

    def _ticket(self, name: str) -> Ticket | None:
        """None for a worker that was enrolled before there were tickets."""
        path = self._tickets / self._path(name).name
        if not path.exists():
            return None
        with files.coded("a worker's ticket could not be read", path):
            return canonical.decode(Ticket, path.read_bytes(), name=str(path))

    @staticmethod
    def _keep(path: Path, noun: object) -> None:
        files.atomic_write(path, canonical.encode(noun), mode=0o600)

    def _path(self, name: str) -> Path:
        if len(name) > _NAME_LIMIT or _NAME.fullmatch(name) is None:
            why = f"it must be at most {_NAME_LIMIT} of a-z, 0-9 and single -"
            raise FarmError(Code.IDENTITY_INVALID, f"{name!r} cannot be a worker's name", why, "Choose another name.")
        return self.folder / f"{name}.json"


def refused(why: str) -> FarmError:
    """The gate's answer to who may not speak to it."""
    advice = "Ask who runs the farm to enrol this worker (`farm worker enrol`)."
    return FarmError(Code.GATE_REFUSED, "the gate refused this worker", why, advice)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, in hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def require_private(path: Path) -> Path:
    """The identity file, if nobody else can read it; raises `FarmError` IDENTITY_INVALID or KEY_EXPOSED."""
    with files.coded("the worker's identity could not be read", path):
        facts = path.stat()
        text = path.read_bytes()
    if facts.st_mode & 0o077 or facts.st_uid not in (os.getuid(), 0):
        advice = f"`chmod 600 {path}`"
        raise FarmError(Code.KEY_EXPOSED, "the worker's identity is open to others", str(path), advice)
    if text.count(b"BEGIN CERTIFICATE") != 2 or b"PRIVATE KEY" not in text:
        why = f"{path} holds no key with two certificates"
        advice = "Give the file that `farm worker enrol` wrote."
        raise FarmError(Code.IDENTITY_INVALID, "that is not a worker's identity", why, advice)
    return path


def holds_ticket(path: Path) -> bool:
    """Whether an identity file is a ticket; raises `FarmError` as `require_private`."""
    with files.coded("the worker's identity could not be read", path):
        text = require_private(path).read_bytes()
    try:
        return authority.is_ticket(x509.load_pem_x509_certificates(text)[0])
    except ValueError as reason:
        raise FarmError(Code.IDENTITY_INVALID, "that is not a worker's identity", f"{path}: {reason}") from reason


def _public_key(request: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a certificate request whose sender has the private one. What else it says counts nowhere."""
    try:
        found = x509.load_pem_x509_csr(request)
        public = found.public_key() if found.is_signature_valid else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        public = None
    if isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1):
        return public
    raise FarmError(
        Code.GATE_PROTOCOL, "a message to the gate was refused", "it asks for no certificate of a P-256 key of its own"
    )


def _key_digest(public: ec.EllipticCurvePublicKey) -> str:
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public.public_bytes(*form)).hexdigest()


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()
