"""How a host that was enrolled becomes a worker: it makes a key of its own and has it certified for its ticket.

The ticket's file becomes the identity's. Nothing is lost where that breaks off: the new key waits beside the ticket
until it is certified, and the gate gives the same key its certificate again.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from farm.gate import authority, identities, messages
from farm.gate.client import Gate
from farm.gate.messages import Join, Joined
from kernelfarm import files
from kernelfarm.errors import Code, FarmError

_CERTIFICATE = b"-----BEGIN CERTIFICATE"


def ensure_joined(url: str, identity: Path) -> bool:
    """Make the file `identity` that of a worker where it is a ticket; whether it was. Several may do so at once.

    Raises `FarmError` as `Gate.ask`, IDENTITY_INVALID, KEY_EXPOSED and coded errors of the disk.
    """
    if not identities.holds_ticket(identity):
        return False
    what = "the worker's identity could not be written"
    with files.coded(what, identity), identity.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not identities.holds_ticket(identity):  # another process has joined meanwhile
            return False
        waiting = identity.with_name(f"{identity.name}.new")
        key = _own_key(waiting)
        asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
        request = asked.public_bytes(serialization.Encoding.PEM).decode()
        given = Gate(url, identity).ask(messages.JOIN, Join(request), Joined).certificate.encode()
        text = identity.read_bytes()
        made = authority.identity_file(key, given, text[text.rindex(_CERTIFICATE) :])
        _require_ours(key, given)
        files.atomic_write(identity, made, mode=0o600)
        waiting.unlink()
    return True


def _own_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key that waits at `path` to be certified, made where there is none."""
    if not path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        files.atomic_write(path, authority.identity_file(key, b"", b""), mode=0o600)
        return key
    facts = path.lstat()
    if facts.st_mode & 0o170077 != 0o100000 or facts.st_uid != os.geteuid():
        raise FarmError(Code.KEY_EXPOSED, "the worker's key is open to others", str(path), f"Remove {path}.")
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as reason:
        raise FarmError(
            Code.IDENTITY_INVALID, "the key of a worker that was about to join is damaged", str(path), f"Remove {path}."
        ) from reason
    assert isinstance(found, ec.EllipticCurvePrivateKey)
    return found


def _require_ours(key: ec.EllipticCurvePrivateKey, certificate: bytes) -> None:
    try:
        good = x509.load_pem_x509_certificate(certificate).public_key() == key.public_key()
    except ValueError:
        good = False
    if not good:
        raise FarmError(Code.GATE_PROTOCOL, "the gate's answer is malformed", "it holds no certificate of our key")
