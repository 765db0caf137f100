"""Who may speak to the gate: enrolment, records, certificates that say one thing each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from farm.gate import authority, identities, registry
from farm.gate.authority import Authority
from farm.gate.client import Gate
from farm.gate.identities import Identities
from farm.https import Peer
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home


@pytest.fixture
def keys(tmp_path: Path) -> Authority:
    return authority.ensure(Home(tmp_path / "home"))


def certificates(secret: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(secret)


def uses(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def refused(records: Identities, shown: bytes | None) -> str:
    with pytest.raises(FarmError) as caught:
        records.require(shown)
    assert caught.value.code is Code.GATE_REFUSED
    return caught.value.why


def test_an_enrolled_worker_is_known_by_its_certificate(keys: Authority) -> None:
    records = Identities(keys)
    made, secret = records.enrol("builder-7")
    own, _authority = certificates(secret)
    assert records.require(der(own)) == made
    assert [each.name for each in records.all()] == ["builder-7"]


def test_a_revoked_or_replaced_one_is_not(keys: Authority) -> None:
    records = Identities(keys)
    first = certificates(records.enrol("builder-7")[1])[0]
    second = certificates(records.enrol("builder-7", force=True)[1])[0]
    assert refused(records, der(first)) == "the certificate of builder-7 was replaced by a newer one"
    revoked = records.revoke("builder-7")
    assert records.revoke("builder-7") == revoked
    assert refused(records, der(second)) == "the identity of builder-7 is revoked"


def test_nobody_and_a_server_are_no_worker(keys: Authority) -> None:
    records = Identities(keys)
    assert refused(records, None) == "it shows no certificate"
    for pair in (keys.gate, keys.registry, keys.token, keys.ca):
        assert refused(records, der(authority.load(pair)[1])).startswith("no worker")


def test_a_name_is_enrolled_once(keys: Authority) -> None:
    records = Identities(keys)
    records.enrol("builder-7")
    with pytest.raises(FarmError) as caught:
        records.enrol("builder-7")
    assert caught.value.code is Code.IDENTITY_EXISTS
    with pytest.raises(FarmError) as caught:
        records.revoke("builder-8")
    assert caught.value.code is Code.IDENTITY_UNKNOWN


def test_each_certificate_is_good_for_one_thing(keys: Authority) -> None:
    """A worker plays no server, the registry no client; the key for tokens is not the authority's child."""
    worker = certificates(Identities(keys).enrol("builder-7")[1])[0]
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    assert uses(worker) == [client]
    assert uses(authority.load(keys.registry)[1]) == [server]
    assert uses(authority.load(keys.gate)[1]) == [server, client]
    token = authority.load(keys.token)[1]
    assert token.issuer == token.subject
    for pair in (keys.gate, keys.registry, keys.token):
        limits = authority.load(pair)[1].extensions.get_extension_for_class(x509.BasicConstraints).value
        assert not limits.ca


def test_secrets_are_the_owners_alone_and_survive_a_second_ensure(keys: Authority, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in keys.folder.iterdir() if path.is_file()}
    assert authority.ensure(Home(tmp_path / "home")) == keys
    assert {path.name: path.read_bytes() for path in keys.folder.iterdir() if path.is_file()} == before
    assert keys.folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in keys.folder.glob("*.key") if path.stat().st_mode & 0o077} == set()


def test_damaged_certificates_are_named_and_not_replaced_in_silence(keys: Authority, tmp_path: Path) -> None:
    keys.ca.key.write_bytes(b"damaged")
    with pytest.raises(FarmError) as caught:
        authority.ensure(Home(tmp_path / "home"))
    assert caught.value.code is Code.FILE_IO
    assert "ca.key" in caught.value.why


def test_an_identity_file_that_others_can_read_is_refused(keys: Authority, tmp_path: Path) -> None:
    path = tmp_path / "id.pem"
    path.write_bytes(Identities(keys).enrol("builder-7")[1])
    path.chmod(0o640)
    with pytest.raises(FarmError) as caught:
        identities.require_private(path)
    assert caught.value.code is Code.KEY_EXPOSED


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\n", b"x" * 100])
def test_a_file_that_is_no_identity_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "id.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(FarmError) as caught:
        Gate("https://127.0.0.1:1", path)
    assert caught.value.code is Code.IDENTITY_INVALID


@pytest.mark.parametrize("url", ["http://a:1", "https://", "https://a/path", "https://u@a", "a:1", "", "https://a?x"])
def test_an_address_of_another_form_is_refused(keys: Authority, url: str) -> None:
    with pytest.raises(FarmError) as caught:
        Peer(
            url,
            name=authority.GATE,
            authority=keys.ca.certificate,
            identity=keys.gate.certificate,
            key=keys.gate.key,
            unreachable=Code.GATE_UNREACHABLE,
        )
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize("place", ["https://evil/v2/", "https://a:12.evil/", "//evil/v2", "http://a:1/x"])
def test_no_answer_leads_to_another_service(keys: Authority, place: str) -> None:
    """A registry names the place of an upload; a token is not sent to any other host."""
    peer = Peer(
        "https://a:1",
        name=authority.REGISTRY,
        authority=keys.ca.certificate,
        identity=keys.gate.certificate,
        key=keys.gate.key,
        unreachable=Code.REGISTRY_UNREACHABLE,
    )
    with pytest.raises(FarmError) as caught, peer.ask("PUT", place):
        pass
    assert "it points to another service" in caught.value.why


def test_the_registry_is_told_to_believe_only_this_farm(keys: Authority, tmp_path: Path) -> None:
    path = registry.write_config(keys, listen="192.0.2.1:5000", storage=tmp_path / "blobs")
    written = json.loads(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert written["http"]["addr"] == "192.0.2.1:5000"
    assert written["http"]["tls"]["clientcas"] == [str(keys.ca.certificate)]
    assert written["auth"]["token"]["rootcertbundle"] == str(keys.token.certificate)
    assert written["storage"]["delete"] == {"enabled": False}
    assert re.fullmatch("[0-9a-f]{64}", written["http"]["secret"])
