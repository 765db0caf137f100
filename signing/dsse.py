"""Signed statements: in-toto in a DSSE envelope in a sigstore bundle v0.3, signed with ECDSA P-256 / SHA-256.

The pre-authentication encoding and the envelope are securesystemslib's, the arithmetic is cryptography's. Signatures
use a random nonce: signing the same statement twice gives different bytes. That is why a signature is an attestation
and never part of a payload.

A bundle has one canonical form: `open_sealed` refuses every byte that `seal` would not write, so nothing unsigned can
hide in one. That includes the second signature (r, n - s) that anybody can make of a good one (r, s): here s is at most
n / 2 ("low S").

`cosign verify-blob-attestation --key NAME.pub --bundle FILE --insecure-ignore-tlog=true BLOB` reads the same format;
BLOB is the manifest or index that the statement names.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import FormatError, VerificationError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey

from kernelfarm import canonical, oci
from kernelfarm.errors import Code, FarmError
from signing import keys
from signing.keys import PublicKey
from signing.statement import AGAIN, Statement

PAYLOAD_TYPE = "application/vnd.in-toto+json"

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the group of P-256 (FIPS 186-5, SEC 2)."""


def seal(statement: Statement, private: ec.EllipticCurvePrivateKey) -> bytes:
    """Sign a statement: the canonical bytes of a sigstore bundle."""
    public = keys.public_of(private)
    envelope = Envelope(statement.encode(), PAYLOAD_TYPE, {})
    made = envelope.sign(CryptoSigner(private, _key(public)))
    made.signature = _low(made.signature)
    return _bundle(envelope, public.keyid)


def open_sealed(data: bytes, public: PublicKey, name: str = "an attestation") -> Statement:
    """The statement in a sigstore bundle, its signature checked under `public`. `name` is what errors call the file.

    Raises `FarmError` ATTESTATION_INVALID for anything but a bundle as `seal` writes it, WRONG_KEY when it names
    another key, SIGNATURE_INVALID when the signature does not verify.
    """
    keyid, envelope = _parse(data, name)
    if keyid != public.keyid:
        raise FarmError(
            Code.WRONG_KEY,
            f"{name} is signed with another key",
            f"it names the key {keyid}, the given one is {public.keyid}",
            "Give the public key of whoever made the bundle.",
            {"file": name, "keyid": keyid, "given": public.keyid},
        )
    try:
        envelope.verify([_key(public)], 1)
    except VerificationError as reason:
        raise FarmError(
            Code.SIGNATURE_INVALID,
            f"the signature in {name} does not verify",
            "its bytes are not those that the key signed",
            AGAIN,
            {"file": name, "keyid": keyid},
        ) from reason
    return Statement.decode(envelope.payload, name)


def read_unverified(data: bytes, name: str = "an attestation") -> tuple[str, Statement]:
    """The key identifier and the statement of a sigstore bundle whose signature is NOT checked: for display only."""
    keyid, envelope = _parse(data, name)
    return keyid, Statement.decode(envelope.payload, name)


def _key(public: PublicKey) -> SSlibKey:
    return SSlibKey.from_crypto(public.crypto, public.keyid, "ecdsa-sha2-nistp256")


def _bundle(envelope: Envelope, keyid: str) -> bytes:
    value = {
        "mediaType": oci.ATTESTATION,
        "verificationMaterial": {"publicKey": {"hint": keyid}, "tlogEntries": []},
        "dsseEnvelope": envelope.to_dict(),
    }
    return canonical.dumps(value)


def _parse(data: bytes, name: str) -> tuple[str, Envelope]:
    value = canonical.loads(data, strict=True, name=name)
    try:
        keyid = value["verificationMaterial"]["publicKey"]["hint"]
        read = Envelope.from_dict(value["dsseEnvelope"])
        (signature,) = read.signatures.values()
        envelope = Envelope(read.payload, PAYLOAD_TYPE, {keyid: Signature(keyid, signature.signature)})
        exact = isinstance(keyid, str) and _bundle(envelope, keyid) == data
        low = _low(signature.signature) == signature.signature
    except (KeyError, TypeError, ValueError, AttributeError, FormatError, FarmError) as reason:
        raise _malformed(name, "it is not a sigstore bundle with one signature") from reason
    if not exact or not low:
        raise _malformed(name, "it has fields or values that do not belong there")
    return keyid, envelope


def _low(signature: str) -> str:
    """The one form of an ECDSA signature in hex: DER, s at most half the order. Raises `ValueError` for none at all."""
    r, s = decode_dss_signature(bytes.fromhex(signature))
    return encode_dss_signature(r, min(s, _ORDER - s)).hex()


def _malformed(name: str, why: str) -> FarmError:
    return FarmError(Code.ATTESTATION_INVALID, f"{name} is not a signed statement", why, AGAIN, {"file": name})
