"""The farm's own certificates: one authority, the gate's certificate, workers' certificates, the key for tokens.

Everything lies in `<home>/gate`. A certificate names a role, not an address: a client asks for the name `GATE` or
`REGISTRY` wherever it connects to, and only this farm's authority is believed. A worker's certificate is good for
clients only, so that no worker can play the gate. The key that signs registry tokens has a certificate of its own,
signed by itself: the authority's would let every worker's key sign tokens.

What travels to a worker's host is a ticket: a key whose certificate is good for one thing, to have the worker's own
key certified, which is made there and leaves it never (`farm.gate.joining`).
"""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kernelfarm import files
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home

GATE = "gate.kernel-farm.internal"
REGISTRY = "registry.kernel-farm.internal"
AUTHORITY_DAYS = 3650
SERVER_DAYS = 825
WORKER_DAYS = 90
TICKET_HOURS = 24

_AS_SERVER = ExtendedKeyUsageOID.SERVER_AUTH
_AS_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
_TICKET = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "ticket")
_SLACK = datetime.timedelta(minutes=10)
"""A certificate is good from a little before it was made: clocks differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a private key and its certificate, both PEM."""

    key: Path
    certificate: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """The certificates under `folder`, which `ensure` makes."""

    folder: Path

    @property
    def ca(self) -> Pair:
        """The authority itself; its key is read by `farm worker enrol`, when a worker joins and when a server's
        certificate is made.
        """
        return self._pair("ca")

    @property
    def gate(self) -> Pair:
        """What the gate shows, to workers and to the registry."""
        return self._pair("gate")

    @property
    def registry(self) -> Pair:
        """What the registry shows."""
        return self._pair("registry")

    @property
    def token(self) -> Pair:
        """The key that signs the registry's tokens."""
        return self._pair("token")

    def _pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.key", self.folder / f"{name}.crt")


def of(home: Home) -> Authority:
    """The authority of a farm; nothing is made."""
    return Authority(home.root / "gate")


def ensure(home: Home) -> Authority:
    """The authority of a farm, made where it is missing; a server's certificate that ends within 30 days is renewed.

    A gate or registry that runs goes on with the certificate that it read at its start.

    Raises a coded `FarmError` of class ENVIRONMENT for the disk.
    """
    found = of(home.create())
    with files.coded("the farm's certificates could not be made", found.folder):
        found.folder.mkdir(mode=0o700, exist_ok=True)
        with files.locked(found.folder):
            if not _good(found.ca):
                _write(found.ca, *_self_signed("kernel-farm authority", AUTHORITY_DAYS, ca=True))
            for pair, name, uses in (
                (found.gate, GATE, (_AS_SERVER, _AS_CLIENT)),  # the registry's client too
                (found.registry, REGISTRY, (_AS_SERVER,)),
            ):
                if not _good(pair):
                    _write(pair, *_issue(found, name, SERVER_DAYS, uses))
            if not _good(found.token):
                _write(found.token, *_self_signed("kernel-farm registry tokens", AUTHORITY_DAYS, ca=False))
    return found


def issue_ticket(authority: Authority, name: str, *, hours: float = TICKET_HOURS) -> tuple[bytes, x509.Certificate]:
    """A new worker's ticket (a key, its certificate, the authority's certificate, all PEM) and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([*_name(name), _TICKET])
    certificate = _certify(authority, subject, key.public_key(), datetime.timedelta(hours=hours), (_AS_CLIENT,))
    return identity_file(key, pem_of(certificate), authority.ca.certificate.read_bytes()), certificate


def issue_worker(authority: Authority, name: str, public: ec.EllipticCurvePublicKey) -> x509.Certificate:
    """The certificate of a worker's own key."""
    return _certify(authority, _name(name), public, datetime.timedelta(days=WORKER_DAYS), (_AS_CLIENT,))


def is_ticket(certificate: x509.Certificate) -> bool:
    """Whether a certificate is a ticket's."""
    return _TICKET in list(certificate.subject)


def identity_file(key: ec.EllipticCurvePrivateKey, certificate: bytes, ca: bytes) -> bytes:
    """What a worker keeps: its key, its certificate and the authority's, PEM."""
    return _pem(key) + certificate + ca


def server_context(authority: Authority) -> ssl.SSLContext:
    """For the gate's listener: TLS 1.3, and nobody gets in without a certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca.certificate))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(authority.gate.certificate, authority.gate.key)
    return context


def load(pair: Pair) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A key and its certificate; raises `FarmError` FILE_IO for files that are neither."""
    with files.coded("the farm's certificates could not be read", pair.certificate):
        key_bytes, certificate_bytes = pair.key.read_bytes(), pair.certificate.read_bytes()
    try:
        key = serialization.load_pem_private_key(key_bytes, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("it is not an elliptic-curve key")
        return key, x509.load_pem_x509_certificate(certificate_bytes)
    except (ValueError, TypeError) as reason:
        advice = f"Remove {pair.key.parent} and enrol the workers again."
        why = f"{pair.key}: {reason}"
        raise FarmError(Code.FILE_IO, "the farm's certificates are damaged", why, advice) from reason


def _good(pair: Pair) -> bool:
    """Whether the pair is there and good for another 30 days. A damaged one raises: it is not replaced in silence."""
    if not (pair.key.is_file() and pair.certificate.is_file()):
        return False
    _key, certificate = load(pair)
    return certificate.not_valid_after_utc > _now() + datetime.timedelta(days=30)


def _self_signed(name: str, days: int, *, ca: bool) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key.public_key(), datetime.timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
    builder = builder.add_extension(_usage(sign=not ca, certify=ca), critical=True)
    return key, builder.sign(key, hashes.SHA256())


def _issue(
    authority: Authority, name: str, days: int, uses: tuple[x509.ObjectIdentifier, ...]
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    return key, _certify(authority, _name(name), key.public_key(), datetime.timedelta(days=days), uses)


def _certify(
    authority: Authority,
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    life: datetime.timedelta,
    uses: tuple[x509.ObjectIdentifier, ...],
) -> x509.Certificate:
    signer, issuer = load(authority.ca)
    builder = _builder(subject, issuer.subject, public, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(sign=True, certify=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=True)
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(known, critical=False)
    if _AS_SERVER in uses:
        [name] = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = _now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, sign: bool, certify: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certify,
        crl_sign=certify,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _write(pair: Pair, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    files.atomic_write(pair.key, _pem(key), mode=0o600)
    files.atomic_write(pair.certificate, pem_of(certificate))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def pem_of(certificate: x509.Certificate) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM)
