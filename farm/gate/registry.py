"""The configuration with which Debian's docker-registry carries this farm's blobs."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from farm.gate import authority as roles
from farm.gate import tokens
from farm.gate.authority import Authority
from farm.https import Peer
from kernelfarm import files
from kernelfarm.errors import Code


def peer(authority: Authority, url: str) -> Peer:
    """The registry at `url` as the gate speaks to it. Raises `FarmError` USAGE, IDENTITY_INVALID or of the disk."""
    return Peer(
        url,
        name=roles.REGISTRY,
        authority=authority.ca.certificate,
        identity=authority.gate.certificate,
        key=authority.gate.key,
        unreachable=Code.REGISTRY_UNREACHABLE,
    )


def write_config(authority: Authority, *, listen: str, storage: Path) -> Path:
    """Write `<home>/gate/registry.yml` and give its path. JSON is YAML too.

    The registry speaks TLS 1.3 with a certificate for the role, only to holders of a certificate of this farm, and only
    for a token of this farm. It lets nobody delete.
    """
    document = {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(storage.absolute())},
            "delete": {"enabled": False},
            "maintenance": {
                "uploadpurging": {"enabled": True, "age": "24h", "interval": "1h", "dryrun": False},
            },
        },
        "http": {
            "addr": listen,
            "relativeurls": True,
            "secret": secrets.token_hex(32),
            "tls": {
                "certificate": str(authority.registry.certificate),
                "key": str(authority.registry.key),
                "clientcas": [str(authority.ca.certificate)],
                "minimumtls": "tls1.3",
            },
        },
        "auth": {
            "token": {
                "realm": "https://gate.kernel-farm.internal/v1/token",
                "service": tokens.SERVICE,
                "issuer": tokens.ISSUER,
                "rootcertbundle": str(authority.token.certificate),
            }
        },
    }
    path = authority.folder / "registry.yml"
    files.atomic_write(path, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n", mode=0o600)
    return path
