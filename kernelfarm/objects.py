"""An entry of the object cache: what one kernel's text became, as a file that a compile leaves and a later one takes.

A line of canonical JSON, then the bytes of the object file. The file's name is the digest of the kernel's text in hex;
what else decides the bytes (compiler, tools, target) is the business of who keeps the folder (`farm.objects`).
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
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
    def read(cls, path: Path) -> Entry:
        """The entry in a file of a folder that somebody else may have filled; follows no link, waits for no writer.

        Raises `FileNotFoundError`, and `FarmError` STORE_CORRUPT for anything but an entry in a plain file.
        """
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as stream:  # refuses a folder
                facts = os.fstat(handle)
                if not stat.S_ISREG(facts.st_mode) or facts.st_size > ENTRY_LIMIT:
                    raise _corrupt(path.name, f"it is not a plain file of at most {ENTRY_LIMIT} bytes")
                return cls.from_bytes(stream.read(ENTRY_LIMIT), path.name)
        except FileNotFoundError:
            raise
        except OSError as reason:
            raise _corrupt(path.name, reason.strerror or str(reason)) from reason

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
