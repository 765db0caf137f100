"""Signing keys: ECDSA P-256 key pairs, one folder with `NAME.key` (private, mode 0600) and `NAME.pub`.

A key's identifier is base64(SHA-256(SubjectPublicKeyInfo in DER)), as cosign and sigstore compute it. The file mode
keeps other users out, not other processes of the same user: see `signing.server` for what the boundary is and is not.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kernelfarm import files
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home

DEFAULT = "default"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST = 64 << 10


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A P-256 public key. `pem` is its SubjectPublicKeyInfo in PEM, `keyid` the identifier."""

    keyid: str
    pem: str
    crypto: ec.EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The two files of a named key; the private one is read by the signer process only."""

    name: str
    private: Path
    public: Path


def pair(home: Home, name: str = DEFAULT) -> KeyPair:
    """The files of the key `name`, which need not exist; raises `FarmError` USAGE for a name that cannot be one."""
    if _NAME.fullmatch(name) is None:
        raise FarmError(
            Code.USAGE,
            f"{name!r} is not the name of a key",
            "it must be 1 to 64 letters, digits and . _ - and begin with a letter or digit",
            "`farm keys list` shows the keys of this farm.",
        )
    keys = home.keys
    return KeyPair(name, keys / f"{name}.key", keys / f"{name}.pub")


def find(home: Home, name: str = DEFAULT) -> KeyPair:
    """The files of an existing key; raises `FarmError` KEY_MISSING. Reads neither of them."""
    found = pair(home, name)
    for path in (found.private, found.public):
        if not path.is_file():
            raise FarmError(
                Code.KEY_MISSING,
                f"there is no key {name!r}",
                f"{path} does not exist",
                f"Make one with `farm keys new{'' if name == DEFAULT else f' --name {name}'}`.",
                {"key": name, "file": str(path)},
            )
    return found


def names(home: Home) -> tuple[str, ...]:
    """Names of the keys in the folder, sorted."""
    keys = home.keys
    return tuple(sorted(path.stem for path in keys.glob("*.pub"))) if keys.is_dir() else ()


def new(home: Home, name: str = DEFAULT, *, force: bool = False) -> PublicKey:
    """Make a key pair. An existing private key is kept (KEY_EXISTS) unless `force`; a crash leaves none half written.

    With `force` the old pair is gone for good: what it signed can be verified with a copy of the old public key only.
    """
    found = pair(home, name)
    private = ec.generate_private_key(ec.SECP256R1())
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = public_of(private)
    files.sweep(home.create().keys)
    with files.coded("a key could not be written", found.private):
        try:
            if force:
                files.atomic_write(found.private, secret, mode=0o600)
            else:
                _place_new(found.private, secret)
        except FileExistsError as reason:
            raise _exists(found) from reason
    files.atomic_write(found.public, public.pem.encode())
    return public


def _exists(found: KeyPair) -> FarmError:
    return FarmError(
        Code.KEY_EXISTS,
        f"the key {found.name!r} exists already",
        str(found.private),
        "Choose another --name, or replace it with --force.",
        {"key": found.name, "file": str(found.private)},
    )


def load_private(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key, in the signer process only.

    Raises `FarmError` KEY_MISSING; KEY_EXPOSED when the file is a link, belongs to another user or is open to group or
    others; KEY_INVALID when it is no unencrypted PKCS #8 PEM of a P-256 key.
    """
    data = _read(path, private=True)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as reason:
        raise _invalid(path, "it is no unencrypted private key in PEM") from reason
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _invalid(path, "it is not a P-256 key")
    return key


def load_public(path: Path) -> PublicKey:
    """Read a public key; raises `FarmError` KEY_MISSING, or KEY_INVALID when it is no PEM of a P-256 public key."""
    data = _read(path, private=False)
    if b"PRIVATE KEY" in data:
        raise _invalid(path, "it is a private key", "Give the public key, and keep this file to the signer.")
    return parse_public(data, path)


def parse_public(data: bytes, path: Path) -> PublicKey:
    """The public key in PEM bytes that came from `path`."""
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as reason:
        raise _invalid(path, "it is no public key in PEM") from reason
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _invalid(path, "it is not a P-256 key")
    return _public(key)


def public_of(key: ec.EllipticCurvePrivateKey) -> PublicKey:
    """The public half of a private key."""
    return _public(key.public_key())


def _public(key: ec.EllipticCurvePublicKey) -> PublicKey:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    der = key.public_bytes(serialization.Encoding.DER, form)
    keyid = base64.b64encode(hashlib.sha256(der).digest()).decode()
    return PublicKey(keyid, key.public_bytes(serialization.Encoding.PEM, form).decode(), key)


def _read(path: Path, *, private: bool) -> bytes:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if private else 0)
    try:
        file = os.open(path, flags)
    except FileNotFoundError as reason:
        raise FarmError(
            Code.KEY_MISSING,
            f"the key {path} cannot be read",
            "it does not exist",
            "`farm keys list` shows the keys of this farm.",
            detail={"file": str(path)},
        ) from reason
    except OSError as reason:
        code = Code.KEY_EXPOSED if private else Code.KEY_INVALID
        raise FarmError(
            code,
            f"the key {path} cannot be used",
            reason.strerror or "",
            "Let it be a plain file that its user can read.",
            {"file": str(path)},
        ) from reason
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise _invalid(path, "it is not a small plain file")
        if private and (found.st_mode & 0o077 or found.st_uid != os.geteuid()):
            raise FarmError(
                Code.KEY_EXPOSED,
                f"the private key {path} is open to others",
                f"mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}; it must be 0600 and your own",
                f"Run `chmod 600 {path}`, and make a new key if somebody may have read it.",
                {"file": str(path)},
            )
        return os.read(file, _LARGEST)
    finally:
        os.close(file)


def _place_new(path: Path, data: bytes) -> None:
    """Write aside, then link: fails where a file exists, and a crash leaves the whole file or none."""
    with files.temp_file(path.parent, mode=0o600) as (stream, aside):
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
        path.hardlink_to(aside)
    files.sync_folder(path.parent)


def _invalid(
    path: Path, why: str, next_step: str = "Give a NAME.pub as `farm keys new` and `farm keys export` make it."
) -> FarmError:
    return FarmError(Code.KEY_INVALID, f"{path} is not a usable key", why, next_step, {"file": str(path)})
