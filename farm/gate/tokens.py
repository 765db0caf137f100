"""Tokens for the registry: short-lived, signed by the farm, each for named repositories (distribution's token scheme).

A registry that is configured with `token.crt` (see `farm registry`) believes them. The form is a JSON Web Token with
ES256: https://distribution.github.io/distribution/spec/auth/jwt/
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from farm.gate import authority
from farm.gate.authority import Authority

ISSUER = "kernel-farm"
SERVICE = "kernel-farm-registry"
LIFE_S = 300.0
INPUTS = "farm/inputs"
"""The repository of what compiles need; the gate writes it, workers read it."""


def results_of(worker: str) -> str:
    """The repository that a worker writes its results to; only the gate and itself may read it."""
    return f"farm/results/{worker}"


def issue(keys: Authority, subject: str, access: Mapping[str, Sequence[str]]) -> str:
    """A token for `subject`: `access` gives actions ("pull", "push") by repository."""
    private, certificate = authority.load(keys.token)
    now = int(time.time())
    head = {
        "typ": "JWT",
        "alg": "ES256",
        "x5c": [base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()],
    }
    claims = {
        "iss": ISSUER,
        "sub": subject,
        "aud": SERVICE,
        "iat": now,
        "nbf": now - 60,
        "exp": now + int(LIFE_S),
        "jti": secrets.token_hex(16),
        "access": [
            {"type": "repository", "name": name, "actions": list(actions)} for name, actions in sorted(access.items())
        ],
    }
    text = f"{_part(json.dumps(head).encode())}.{_part(json.dumps(claims).encode())}"
    first, second = decode_dss_signature(private.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_part(first.to_bytes(32, 'big') + second.to_bytes(32, 'big'))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
