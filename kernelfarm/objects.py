"""An entry of the object cache: what one kernel's text became, as a file that a compile leaves and a later one takes.

A line of canonical JSON, then the bytes of the object file. The file's name is the digest of the kernel's text in hex;
what else decides the bytes (compiler, tools, target) is the business of who keeps the folder (`farm.objects`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from kernelfarm import canonical, digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError

FOLDER = "objects"
"""Name of the folder of entries, in a compile's input folder and in its output folder."""
ENTRY_LIMIT = 64 << 20
COUNT_LIMIT = 1 << 14
"""Largest entry in bytes, and entries that one compile may leave."""
NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """`llvm` is the digest of the LLVM IR that was compiled, which a payload's config records; `data` the object."""

    llvm: Digest
    data: bytes

    def to_bytes(self) -> bytes:
        """The file."""
        return canonical.encode(_Head(self.llvm, digest.of_bytes(self.data))) + b"\n" + self.data

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Entry:
        """The entry in a file; raises `FarmError` STORE_CORRUPT when the object is not that of its digest."""
        line, _, rest = data.partition(b"\n")
        try:
            head = canonical.decode(_Head, line, name=name)
        except FarmError as reason:
            raise _corrupt(name, reason.why) from reason
        if digest.of_bytes(rest) != head.object:
            raise _corrupt(name, "the object is not that of its digest")
        return cls(head.llvm, rest)


@dataclass(frozen=True, slots=True)
class _Head:
    SCHEMA: ClassVar[str] = "object/1"
    llvm: Digest
    object: Digest


def _corrupt(name: str, why: str) -> FarmError:
    return FarmError(Code.STORE_CORRUPT, f"the cached object {name} is damaged", why, detail={"file": name})
