"""Envelopes: one form, one signature, one key."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from signing import dsse, keys
from signing.statement import Statement, Subject
from tests.support import bundles

SIGNER = bundles.signer()
STATEMENT = Statement((Subject("cls", digest.of_bytes(b"x")),), "urn:test", {"a": 1})
SEALED = dsse.seal(STATEMENT, SIGNER.private)


def code_of(data: bytes, public: keys.PublicKey = SIGNER.public) -> Code:
    with pytest.raises(FarmError) as caught:
        dsse.open_sealed(data, public, "f")
    assert caught.value.detail["file"] == "f"
    return caught.value.code


def with_(change: dict[str, Any]) -> bytes:
    return canonical.dumps({**json.loads(SEALED), **change})


def with_envelope(**change: Any) -> bytes:
    value = json.loads(SEALED)
    return canonical.dumps({**value, "dsseEnvelope": {**value["dsseEnvelope"], **change}})


def with_signature(**change: Any) -> bytes:
    (signature,) = json.loads(SEALED)["dsseEnvelope"]["signatures"]
    return with_envelope(signatures=[{**signature, **change}])


def test_a_sealed_statement_opens_under_its_key() -> None:
    assert dsse.open_sealed(SEALED, SIGNER.public) == STATEMENT
    assert dsse.read_unverified(SEALED) == (SIGNER.public.keyid, STATEMENT)


def test_a_sealed_statement_has_the_form_of_a_sigstore_bundle() -> None:
    value = json.loads(SEALED)

    assert value["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert value["verificationMaterial"] == {"publicKey": {"hint": SIGNER.public.keyid}, "tlogEntries": []}
    assert value["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"
    assert base64.b64decode(value["dsseEnvelope"]["payload"]) == STATEMENT.encode()


def test_the_signature_is_ecdsa_over_the_pre_authentication_encoding() -> None:
    envelope = json.loads(SEALED)["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    signed = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)

    (signature,) = envelope["signatures"]

    SIGNER.public.crypto.verify(base64.b64decode(signature["sig"]), signed, ec.ECDSA(hashes.SHA256()))  # raises if not
    assert signature["keyid"] == SIGNER.public.keyid


def test_signing_again_gives_other_bytes_for_the_same_statement() -> None:
    again = dsse.seal(STATEMENT, SIGNER.private)

    assert again != SEALED
    assert dsse.open_sealed(again, SIGNER.public) == STATEMENT


def test_another_key_is_the_wrong_key() -> None:
    assert code_of(SEALED, bundles.signer(2).public) is Code.WRONG_KEY


def test_a_signature_that_borrows_a_key_identifier_does_not_verify() -> None:
    forged = json.loads(dsse.seal(STATEMENT, bundles.signer(2).private))
    forged["verificationMaterial"]["publicKey"]["hint"] = SIGNER.public.keyid
    forged["dsseEnvelope"]["signatures"][0]["keyid"] = SIGNER.public.keyid

    assert code_of(canonical.dumps(forged)) is Code.SIGNATURE_INVALID


def test_a_signature_over_another_statement_does_not_verify() -> None:
    other = Statement(STATEMENT.subjects, "urn:test", {"a": 2})

    assert code_of(with_envelope(payload=base64.b64encode(other.encode()).decode())) is Code.SIGNATURE_INVALID


@pytest.mark.parametrize(
    "data",
    [
        with_({"mediaType": "application/vnd.dev.sigstore.bundle.v0.2+json"}),
        with_({"extra": 1}),
        with_({"dsseEnvelope": None}),
        with_({"verificationMaterial": {"publicKey": {"hint": SIGNER.public.keyid}}}),
        with_({"verificationMaterial": {"publicKey": {"hint": SIGNER.public.keyid}, "tlogEntries": [{}]}}),
        with_({"verificationMaterial": {"publicKey": {"hint": 3}, "tlogEntries": []}}),
        with_envelope(payloadType="text/plain"),
        with_envelope(payload="not base64!"),
        with_envelope(payload=base64.b64encode(STATEMENT.encode()).decode() + "\n"),
        with_envelope(signatures=[]),
        with_envelope(signatures=json.loads(SEALED)["dsseEnvelope"]["signatures"] * 2),
        with_envelope(extra=1),
        with_signature(extra=1),
        with_signature(keyid="x"),
        with_signature(sig=None),
        b"[]",
        b"{}",
        b"3",
    ],
)
def test_anything_but_the_one_form_is_not_an_attestation(data: bytes) -> None:
    assert code_of(data) is Code.ATTESTATION_INVALID


class Odd(Statement):
    """Signs whatever its predicate holds under "content"."""

    def encode(self) -> bytes:
        return canonical.dumps(self.predicate["content"])


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"_type": "x"},
        {**STATEMENT.to_json(), "extra": 1},
        {**STATEMENT.to_json(), "subject": [1]},
        {**STATEMENT.to_json(), "_type": "https://in-toto.io/Statement/v0.1"},
    ],
)
def test_a_signed_payload_that_is_no_statement_is_not_an_attestation(content: Any) -> None:
    sealed = dsse.seal(Odd((), "", {"content": content}), SIGNER.private)

    assert code_of(sealed) is Code.ATTESTATION_INVALID


def test_every_single_byte_matters() -> None:
    for position in range(len(SEALED)):
        flipped = bytearray(SEALED)
        flipped[position] ^= 0x01
        with pytest.raises(FarmError):
            dsse.open_sealed(bytes(flipped), SIGNER.public)


def test_the_other_signature_that_anybody_can_make_of_a_good_one_is_refused() -> None:
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    (signature,) = json.loads(SEALED)["dsseEnvelope"]["signatures"]
    r, s = utils.decode_dss_signature(base64.b64decode(signature["sig"]))
    other = base64.b64encode(utils.encode_dss_signature(r, order - s)).decode()

    assert s <= order // 2
    assert code_of(with_signature(sig=other)) is Code.ATTESTATION_INVALID
