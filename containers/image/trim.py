"""Takes from an ELF file what no loader ever reads: symbol tables, debug data, section headers.

The bytes of every segment stay as they are, at the same addresses; they only move to other places of the file. Half of
the largest library of the image is symbol names. Own code, because the strip programs at hand rewrite more than that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

_MAGIC = b"\x7fELF\x02\x01"
_PT_LOAD = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_PAGE = 4096
WORTH = 128 << 10
"""Bytes that must be saved: every other file stays byte for byte that of its package."""


@dataclass(slots=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    align: int


def trimmed(data: bytes) -> bytes:
    """The file without what is not loaded; unchanged where that saves little, or for no usual 64-bit ELF file.

    Raises nothing: a program that is odd stays as it is.
    """
    if data[:6] != _MAGIC or len(data) < _HEADER.size:
        return data
    header = list(_HEADER.unpack_from(data))
    entry_size, count = header[9], header[10]
    table = header[5]
    if entry_size != _PROGRAM.size or table + count * entry_size > len(data):
        return data
    segments = [_Segment(*_PROGRAM.unpack_from(data, table + index * entry_size)) for index in range(count)]
    loads = [segment for segment in segments if segment.kind == _PT_LOAD and segment.file_size]
    loads.sort(key=lambda segment: segment.offset)
    if not _usual(loads, segments, table, count * entry_size, len(data)):
        return data
    places = _places(loads)
    out = bytearray()
    for load in loads:
        out += bytes(places[load.offset] - len(out))
        out += data[load.offset : load.offset + load.file_size]
    header[5] = _moved(table, loads, places)
    header[6] = header[11] = header[12] = header[13] = 0  # no section headers
    out[: _HEADER.size] = _HEADER.pack(*header)
    for index, segment in enumerate(segments):
        empty = segment.offset % max(segment.align, _PAGE)
        offset = _moved(segment.offset, loads, places) if segment.file_size else empty
        row = (segment.kind, segment.flags, offset, segment.address, segment.physical)
        sizes = (segment.file_size, segment.memory_size, segment.align)
        _PROGRAM.pack_into(out, header[5] + index * entry_size, *row, *sizes)
    return bytes(out) if len(data) - len(out) >= WORTH else data


def _usual(loads: list[_Segment], segments: list[_Segment], table: int, table_size: int, size: int) -> bool:
    """Loads that follow each other from the file's start, and every other segment and the table inside one of them."""
    if not loads or loads[0].offset != 0 or any(load.offset + load.file_size > size for load in loads):
        return False
    if any(before.offset + before.file_size > after.offset for before, after in pairwise(loads)):
        return False
    spans = [(segment.offset, segment.file_size) for segment in segments if segment.file_size] + [(table, table_size)]
    return all(
        any(load.offset <= start and start + length <= load.offset + load.file_size for load in loads)
        for start, length in spans
    )


def _places(loads: list[_Segment]) -> dict[int, int]:
    """New offset of each load by its old one: as low as may be, the same place within a page."""
    places: dict[int, int] = {}
    end = 0
    for load in loads:
        align = max(load.align, _PAGE)
        places[load.offset] = end + (load.offset - end) % align
        end = places[load.offset] + load.file_size
    return places


def _moved(offset: int, loads: list[_Segment], places: dict[int, int]) -> int:
    inside = next(load for load in reversed(loads) if load.offset <= offset)
    return offset + places[inside.offset] - inside.offset
