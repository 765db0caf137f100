"""Who may speak to the gate: enrolment, records, certificates that say one thing each."""

from __future__ import annotations

import base64
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
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


def request_of(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def own_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def ticket(records: Identities, name: str = "builder-7", **more: Any) -> bytes:
    """The certificate of a new ticket."""
    return der(certificates(records.enrol(name, **more)[1])[0])


def joined(records: Identities, name: str = "builder-7", **more: Any) -> x509.Certificate:
    """The certificate of a new worker's own key."""
    _name, made = records.join(ticket(records, name, **more), request_of(own_key()))
    return x509.load_pem_x509_certificate(made)


def not_joined(records: Identities, shown: bytes | None, request: bytes) -> str:
    with pytest.raises(FarmError) as caught:
        records.join(shown, request)
    assert caught.value.code is Code.GATE_REFUSED
    return caught.value.why


def test_a_worker_that_has_joined_is_known_by_its_certificate(keys: Authority) -> None:
    records = Identities(keys)
    own = joined(records)
    assert records.require(der(own)) == records.get("builder-7")
    assert [each.name for each in records.all()] == ["builder-7"]


def test_a_ticket_is_good_for_one_key_and_for_nothing_else(keys: Authority) -> None:
    records = Identities(keys)
    shown, request = ticket(records), request_of(own_key())
    assert records.is_invited(records.get("builder-7"))
    assert refused(records, shown) == "builder-7 has shown its ticket, which is for joining alone"
    name, made = records.join(shown, request)
    assert records.join(shown, request) == (name, made)  # the answer was lost on the way
    assert not records.is_invited(records.get("builder-7"))
    assert "was used before" in not_joined(records, shown, request_of(own_key()))  # somebody read the file
    assert "has joined already" in not_joined(records, der(x509.load_pem_x509_certificate(made)), request)
    assert refused(records, shown) == "builder-7 has shown its ticket, which is for joining alone"
    assert records.require(der(x509.load_pem_x509_certificate(made))).name == "builder-7"


def test_a_ticket_that_was_revoked_replaced_or_is_over_is_good_for_nothing(
    keys: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, request = Identities(keys), request_of(own_key())
    first = ticket(records)
    records.revoke("builder-7")
    assert not_joined(records, first, request) == "the identity of builder-7 is revoked"
    second = ticket(records, force=True)
    assert "was used before, or replaced" in not_joined(records, first, request)
    short = ticket(records, force=True, hours=1)
    assert "was used before, or replaced" in not_joined(records, second, request)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3700)
    assert not_joined(records, short, request) == "the identity of builder-7 is expired"
    assert not_joined(records, None, request) == "it shows no certificate"
    assert x509.load_der_x509_certificate(second).not_valid_after_utc.timestamp() == pytest.approx(now + 86_400, abs=60)


@pytest.mark.parametrize("kind", ["nothing", "rsa", "curve", "signature"])
def test_only_a_p_256_key_that_the_host_has_is_certified(keys: Authority, kind: str) -> None:
    records = Identities(keys)
    shown, good = ticket(records), request_of(own_key())
    wrong = {
        "nothing": b"",
        "rsa": request_of(rsa.generate_private_key(65537, 2048)),
        "curve": request_of(ec.generate_private_key(ec.SECP384R1())),
        "signature": damaged(good),
    }[kind]
    with pytest.raises(FarmError) as caught:
        records.join(shown, wrong)
    assert caught.value.code is Code.GATE_PROTOCOL
    records.join(shown, good)  # the ticket is not spent by that


def damaged(request: bytes) -> bytes:
    """A request whose signature is another one's."""
    found = x509.load_pem_x509_csr(request).public_bytes(serialization.Encoding.DER)
    lines = base64.b64encode(found[:-1] + bytes([found[-1] ^ 1])).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{lines}\n-----END CERTIFICATE REQUEST-----\n".encode()


def test_what_a_worker_was_given_is_the_owners_alone(keys: Authority) -> None:
    records = Identities(keys)
    joined(records)
    kept = [
        path for name in ("tickets", "workers") for path in (keys.folder / name).iterdir() if path.suffix == ".json"
    ]
    assert len(kept) == 2
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert not any(b"PRIVATE" in path.read_bytes() for path in kept)


def test_a_worker_that_was_enrolled_before_there_were_tickets_goes_on(keys: Authority) -> None:
    records = Identities(keys)
    own = joined(records)
    (keys.folder / "tickets" / "builder-7.json").unlink()
    assert records.require(der(own)).name == "builder-7"
    assert not records.is_invited(records.get("builder-7"))


def test_a_revoked_or_replaced_one_is_not(keys: Authority) -> None:
    records = Identities(keys)
    first = joined(records)
    second = joined(records, force=True)
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
    records = Identities(keys)
    invited = x509.load_der_x509_certificate(ticket(records))
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    assert [uses(invited), uses(joined(records, force=True))] == [[client], [client]]
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
