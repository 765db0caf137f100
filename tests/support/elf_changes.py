"""Linked files with one thing changed, for tests of the gates: what ELF keeps where, on every machine."""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO

from elftools.elf.elffile import ELFFile

from toolchains.machines import MACHINES

Change = Callable[[bytes], bytes]


def put(data: bytes, at: int, new: bytes) -> bytes:
    assert data[at : at + len(new)] != new
    return data[:at] + new + data[at + len(new) :]


class Layout:
    """Where ELF keeps things, by its class."""

    def __init__(self, data: bytes) -> None:
        self.wide = data[4] == 2
        self.data = data

    def number(self, at: int) -> int:
        size = 8 if self.wide else 4
        return int.from_bytes(self.data[at : at + size], "little")

    def header(self, kind: int, number: int = 0) -> int:
        """Offset of a program header."""
        start, size = self.number(32 if self.wide else 28), 56 if self.wide else 32
        count = struct.unpack_from("<H", self.data, 56 if self.wide else 44)[0]
        places = [start + size * k for k in range(count)]
        return [at for at in places if struct.unpack_from("<I", self.data, at)[0] == kind][number]

    def flags(self, kind: int, number: int = 0) -> int:
        """Offset of its flags."""
        return self.header(kind, number) + (4 if self.wide else 24)

    def dynamic(self, tag: int) -> int:
        """Offset of a dynamic entry; its value lies a word behind it."""
        start, word = self.number(self.header(2) + (8 if self.wide else 4)), 8 if self.wide else 4
        return next(at for at in range(start, start + 64 * word, 2 * word) if self.number(at) == tag)

    def value(self, number: int) -> bytes:
        return number.to_bytes(8 if self.wide else 4, "little")


def flags(kind: int, new: int, number: int = 0) -> Change:
    return lambda data: put(data, Layout(data).flags(kind, number), struct.pack("<I", new))


def dynamic(tag: int, *, new_tag: int | None = None, value: int | None = None) -> Change:
    def change(data: bytes) -> bytes:
        layout = Layout(data)
        at, word = layout.dynamic(tag), 8 if layout.wide else 4
        if value is not None:
            data = put(data, at + word, layout.value(value))
        return data if new_tag is None else put(data, at, layout.value(new_tag))

    return change


def relocation(data: bytes) -> bytes:
    """Another kind of the first relocation."""
    layout = Layout(data)
    tag = 7 if MACHINES[machine_of(data)].rela else 17
    at = layout.number(layout.dynamic(tag) + (8 if layout.wide else 4)) + (8 if layout.wide else 4)
    return put(data, at, b"\6\0")


def machine_of(data: bytes) -> str:
    number = struct.unpack_from("<H", data, 18)[0]
    return next(name for name, machine in MACHINES.items() if machine.elf_machine == number)


def retyped(name: str, kind: int) -> Callable[[bytes], bytes]:
    """Another type of an exported symbol."""

    def change(data: bytes) -> bytes:
        table = ELFFile(BytesIO(data)).get_section_by_name(".dynsym")
        [number] = [number for number, symbol in enumerate(table.iter_symbols()) if symbol.name == name]
        at = table["sh_offset"] + number * table["sh_entsize"] + (4 if Layout(data).wide else 12)
        return put(data, at, bytes([data[at] & 0xF0 | kind]))

    return change
