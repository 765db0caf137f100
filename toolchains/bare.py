"""A file of nothing but code, for the disassembler: what the linked file says of itself must not decide how it is read.

llvm-objdump adds the features that attributes (`.riscv.attributes`, `.ARM.attributes`) and flags in the header claim to
those that it is told, and begins anew at each symbol: code that says that it needs a later processor would be decoded
as if the target had it. So it never sees that file, but one made here, which claims nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from toolchains.machines import MACHINES

_NAMES = b"\0.names\0"
_PROGBITS, _STRTAB, _ALLOC_EXEC = 1, 3, 2 | 4
_SHARED = 3  # e_type


def wrap(pieces: Sequence[tuple[int, bytes]], machine: str) -> bytes:
    """A file of this machine whose only sections are the code, given as (address, bytes), each at its address."""
    wide = MACHINES[machine].bits == 64
    head = 64 if wide else 52
    body, sections = bytearray(), [_section(wide, 0, 0, 0, 0, 0, 0)]
    for address, code in pieces:
        sections.append(_section(wide, 0, _PROGBITS, _ALLOC_EXEC, address, head + len(body), len(code)))
        body += code
    sections.append(_section(wide, 1, _STRTAB, 0, 0, head + len(body), len(_NAMES)))
    body += _NAMES
    return _header(machine, head + len(body), len(sections)) + body + b"".join(sections)


def _header(machine: str, sections_at: int, count: int) -> bytes:
    facts = MACHINES[machine]
    wide = facts.bits == 64
    ident = b"\x7fELF" + bytes((2 if wide else 1, 1, 1)) + bytes(9)
    sizes = (64, 56, 0, 64) if wide else (52, 32, 0, 40)
    form = "<HHIQQQI6H" if wide else "<HHIIIII6H"
    fields = (_SHARED, facts.elf_machine, 1, 0, 0, sections_at, facts.elf_flags, *sizes, count, count - 1)
    return ident + struct.pack(form, *fields)


def _section(wide: bool, name: int, kind: int, flags: int, address: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ" if wide else "<10I", name, kind, flags, address, offset, size, 0, 0, 1, 0)
