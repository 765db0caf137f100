"""Nouns of a bill of materials, whatever format it is written in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from kernelfarm import digest
from kernelfarm.digest import Digest

PREFIX = "kernel-farm:"
"""Beginning of the names of our own properties."""
SHORT = 12
"""Hex digits of a digest that stands for a version."""


class Kind(Enum):
    """What a part is; the values are CycloneDX's."""

    APPLICATION = "application"
    CONTAINER = "container"
    DATA = "data"
    FILE = "file"
    LIBRARY = "library"
    MODEL = "machine-learning-model"


@dataclass(frozen=True, slots=True)
class Hashes:
    """Hashes in lower-case hex; `sha512` is empty where only the other one is known."""

    sha256: str
    sha512: str = ""

    @classmethod
    def of_file(cls, path: Path) -> Hashes:
        """Both hashes, in one reading. Raises `OSError`."""
        first, second = hashlib.sha256(), hashlib.sha512()
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                first.update(block)
                second.update(block)
        return cls(first.hexdigest(), second.hexdigest())

    @classmethod
    def of_digest(cls, value: Digest) -> Hashes:
        """The hash that a digest is."""
        return cls(digest.hex_of(value))


@dataclass(frozen=True, slots=True)
class Part:
    """A component. `ref` is unique in its bill; `used` tells parts of the product from what only helped to make it.

    `licence` is an SPDX expression that its publisher declares; empty: unknown. `properties` are (name, value).
    `ancestors` are what it was made from by a change, which is not in the product.
    """

    ref: str
    kind: Kind
    name: str
    version: str = ""
    purl: str = ""
    hashes: Hashes | None = None
    licence: str = ""
    supplier: str = ""
    description: str = ""
    mime_type: str = ""
    used: bool = True
    properties: tuple[tuple[str, str], ...] = ()
    parts: tuple[Part, ...] = ()
    ancestors: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Bill:
    """What a thing consists of. `needs` are pairs of refs: the first needs the second. Order means nothing."""

    root: Part
    makers: tuple[Part, ...]
    """What made the bill itself."""
    parts: tuple[Part, ...]
    needs: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def every(self) -> list[Part]:
        """All parts with those inside them, the root first."""
        found: list[Part] = []
        waiting = [self.root, *self.parts]
        while waiting:
            part = waiting.pop(0)
            found.append(part)
            waiting[:0] = part.parts
        return found


def own(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Properties of ours, under their whole names."""
    return tuple((PREFIX + name, value) for name, value in sorted(properties.items()))
