"""Reads lld's map of a link: which bytes of which input were kept, after the linker left out what nothing uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernelfarm.errors import Code, FarmError

Kept = Mapping[str, Mapping[str, int]]
"""Bytes kept of each section of each input, by the names that the linker saw; "libx.a(y.o)" is an archive's member."""

INTERNAL = "<internal>"
"""What the linker made itself: tables, and strings merged from several inputs."""
_HEAD = re.compile(r" *VMA +LMA     Size Align Out     In      Symbol")
_LINE = re.compile(r"( *[0-9a-f]+) +[0-9a-f]+ ([ 0-9a-f]{8}) [ 0-9]{5} {9}(\S.*?):\((.*)\)")
"""Address (8 or 16 columns, by the machine's), address of loading, size, alignment, an input with a section of it."""


def read(text: str) -> dict[str, dict[str, int]]:
    """The inputs of a map with the sizes of their sections in bytes; what the linker made itself is left out.

    So is what has no address, and is in no memory of a device: comments and attributes. Raises `FarmError` TOOL_FAILED
    for a text that is no such map, or names no input: nobody would judge what it hides.
    """
    head, *lines = text.splitlines() or [""]
    found: dict[str, dict[str, int]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match[3] == INTERNAL:
            continue
        sections = found.setdefault(match[3], {})
        if int(match[1], 16):
            name = match[4].partition("+0x")[0]  # .eh_frame comes in pieces
            sections[name] = sections.get(name, 0) + int(match[2], 16)
    if not _HEAD.fullmatch(head) or not any(map(any, (sections.values() for sections in found.values()))):
        why = "it names no part of an object" if _HEAD.fullmatch(head) else f"it begins with {head[:60]!r}"
        raise FarmError(
            Code.TOOL_FAILED, "the linker's map cannot be read", why, "Run `make setup`: it is another lld."
        )
    return found
