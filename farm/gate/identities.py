"""Who may work from elsewhere: a record for each enrolled worker, read anew at every request.

A worker is who its certificate says: the gate takes the name from the certificate and asks that the record of that name
holds this very certificate and is not revoked. So a revocation holds from the next request on, and a certificate of
another worker's name helps nobody.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from farm.gate import authority
from farm.gate.authority import Authority
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_LIMIT = 63


@dataclass(frozen=True, slots=True)
class Identity:
    """An enrolled worker. `fingerprint`: SHA-256 of its certificate in hex; times are seconds since 1970 UTC."""

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
class Identities:
    """The records of an authority's workers."""

    authority: Authority

    @property
    def folder(self) -> Path:
        """A JSON file for each."""
        return self.authority.folder / "workers"

    def enrol(self, name: str, *, force: bool = False) -> tuple[Identity, bytes]:
        """Enrol a worker: its record, and the identity file that it needs, which is kept nowhere here.

        With `force` an enrolled (or revoked) name gets a new certificate and the old one is refused from then on.
        Raises `FarmError` IDENTITY_EXISTS, or IDENTITY_INVALID for a name that cannot be one.
        """
        path = self._path(name)
        with files.coded("a worker could not be enrolled", path):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with files.locked(self.folder):
                if path.exists() and not force:
                    why = f"its record is {path}"
                    advice = "Choose another name, or replace its certificate with --force."
                    raise FarmError(Code.IDENTITY_EXISTS, f"the worker {name!r} is enrolled already", why, advice)
                secret, certificate = authority.issue_worker(self.authority, name)
                made = Identity(name, fingerprint(certificate), time.time(), _end(certificate))
                files.atomic_write(path, canonical.encode(made), mode=0o600)
        return made, secret

    def revoke(self, name: str) -> Identity:
        """Refuse a worker from now on; a revoked one stays so. Raises `FarmError` IDENTITY_UNKNOWN."""
        with files.coded("a worker could not be revoked", self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with files.locked(self.folder):
                found = self.get(name)
                if found.revoked_at is None:
                    found = replace(found, revoked_at=time.time())
                    files.atomic_write(self._path(name), canonical.encode(found), mode=0o600)
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
        if not certificate:
            raise refused("it shows no certificate")
        shown = x509.load_der_x509_certificate(certificate)
        names = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        name = str(names[0].value) if len(names) == 1 else ""
        try:
            found = self.get(name)
        except FarmError as reason:
            if reason.code not in (Code.IDENTITY_UNKNOWN, Code.IDENTITY_INVALID):
                raise
            raise refused(f"no worker {name!r} is enrolled") from reason
        if fingerprint(shown) != found.fingerprint:
            raise refused(f"the certificate of {name} was replaced by a newer one")
        if (state := found.state(time.time())) != "good":
            raise refused(f"the identity of {name} is {state}")
        return found

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


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()
