"""The bytes of a payload's bill of materials: canonical JSON whose serial number follows from all the rest of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelfarm import canonical, digest
from sbom import cyclonedx, extras, payload
from sbom.making import Making
from sbom.parts import Bill
from sbom.payload import Contents

NAMESPACE = uuid.UUID("6b65726e-656c-5f66-8172-6d5f73626f6d")
"""Of the serial numbers: UUIDs of version 5 over the digest of a bill without its serial number (RFC 9562)."""


def describe(folder: Path, making: Making) -> bytes:
    """The bill of the payload in a folder, a pure function of the folder's other files and of `making`.

    Raises `FarmError` PAYLOAD_INVALID for a payload that cannot be described, and `OSError`.
    """
    contents = Contents.read(folder)
    document = cyclonedx.spell(payload.bill(contents, making))
    extras.add(document, contents, making)
    return numbered(document)


def of_bill(bill: Bill) -> bytes:
    """The bytes of any other bill."""
    return numbered(cyclonedx.spell(bill))


def numbered(document: Mapping[str, Any]) -> bytes:
    """The bytes of a document, with its serial number."""
    return canonical.dumps({**document, "serialNumber": serial_of(document)})


def serial_of(document: Mapping[str, Any]) -> str:
    """The serial number that a document must have."""
    rest = {key: value for key, value in document.items() if key != "serialNumber"}
    return uuid.uuid5(NAMESPACE, digest.of_bytes(canonical.dumps(rest))).urn
