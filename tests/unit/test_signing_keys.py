"""Keys: who may read them, what is refused, what an identifier is."""

from __future__ import annotations

import base64
import hashlib
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.paths import Home
from signing import keys


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(path: Path) -> FarmError:
    with pytest.raises(FarmError) as caught:
        keys.load_private(path)
    return caught.value


def test_a_new_key_is_a_private_file_and_a_public_one(home: Home) -> None:
    public = keys.new(home)

    pair = keys.find(home)
    assert (mode(pair.private), mode(pair.public), mode(home.keys)) == (0o600, 0o644, 0o700)
    assert pair.private.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert keys.load_public(pair.public) == public
    assert keys.public_of(keys.load_private(pair.private)) == public
    assert sorted(path.name for path in home.keys.iterdir()) == ["default.key", "default.pub"]


def test_the_identifier_is_the_hash_of_the_public_key_as_cosign_computes_it(home: Home) -> None:
    public = keys.new(home)

    der = base64.b64decode("".join(public.pem.splitlines()[1:-1]))

    assert public.keyid == base64.b64encode(hashlib.sha256(der).digest()).decode()


def test_an_existing_key_is_kept(home: Home) -> None:
    first = keys.new(home)

    with pytest.raises(FarmError) as caught:
        keys.new(home)

    assert caught.value.code is Code.KEY_EXISTS
    assert keys.load_public(keys.find(home).public) == first
    assert keys.public_of(keys.load_private(keys.find(home).private)) == first


def test_force_replaces_both_halves(home: Home) -> None:
    first = keys.new(home)
    second = keys.new(home, force=True)

    assert first.keyid != second.keyid
    assert keys.public_of(keys.load_private(keys.find(home).private)) == second
    assert mode(keys.find(home).private) == 0o600


def test_keys_have_names(home: Home) -> None:
    assert keys.names(home) == ()
    keys.new(home, "release")
    keys.new(home, "audit")

    assert keys.names(home) == ("audit", "release")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "naïve", "a b"])
def test_a_name_that_is_no_plain_file_name_is_wrong_usage(home: Home, name: str) -> None:
    with pytest.raises(FarmError) as caught:
        keys.new(home, name)

    assert (caught.value.code, home.keys.exists()) == (Code.USAGE, False)


def test_a_missing_key_is_answered_with_the_command_that_makes_one(home: Home) -> None:
    with pytest.raises(FarmError) as caught:
        keys.find(home, "release")

    assert (caught.value.code, caught.value.status) == (Code.KEY_MISSING, Status.USAGE)
    assert "farm keys new --name release" in caught.value.next_step


@pytest.mark.parametrize("loose", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_private_key_that_others_may_touch_is_refused(home: Home, loose: int) -> None:
    keys.new(home)
    private = keys.find(home).private
    private.chmod(loose)

    error = refusal(private)

    assert (error.code, error.status) == (Code.KEY_EXPOSED, Status.ENVIRONMENT)
    assert "chmod 600" in error.next_step


def test_a_private_key_behind_a_link_is_refused(home: Home) -> None:
    keys.new(home)
    private = keys.find(home).private
    link = private.with_name("link.key")
    link.symlink_to(private)

    assert refusal(link).code is Code.KEY_EXPOSED


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def pkcs8(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, password: bytes = b"") -> bytes:
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


def test_what_is_no_plain_p256_key_is_not_a_usable_private_key(tmp_path: Path) -> None:
    p256 = ec.generate_private_key(ec.SECP256R1())
    unusable = [
        b"",
        b"no key",
        b"x" * 100_000,
        pkcs8(p256, b"secret"),
        pkcs8(ec.generate_private_key(ec.SECP384R1())),
        pkcs8(ed25519.Ed25519PrivateKey.generate()),
    ]

    for number, data in enumerate(unusable):
        assert refusal(written(tmp_path / f"{number}.key", data)).code is Code.KEY_INVALID, data[:40]
    assert refusal(tmp_path / "absent.key").code is Code.KEY_MISSING


def test_a_private_key_given_as_the_public_one_is_pointed_out(home: Home) -> None:
    keys.new(home)

    with pytest.raises(FarmError) as caught:
        keys.load_public(keys.find(home).private)

    assert (caught.value.code, caught.value.why) == (Code.KEY_INVALID, "it is a private key")


def test_what_is_no_p256_public_key_is_not_usable(tmp_path: Path) -> None:
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    curve = ec.generate_private_key(ec.SECP384R1()).public_key()

    for number, data in enumerate(
        [
            b"",
            b"text",
            other.public_bytes(serialization.Encoding.PEM, form),
            curve.public_bytes(serialization.Encoding.PEM, form),
        ]
    ):
        with pytest.raises(FarmError) as caught:
            keys.load_public(written(tmp_path / f"{number}.pub", data))
        assert caught.value.code is Code.KEY_INVALID
    with pytest.raises(FarmError) as caught:
        keys.load_public(tmp_path / "absent.pub")
    assert (caught.value.code, caught.value.status) == (Code.KEY_MISSING, Status.USAGE)
