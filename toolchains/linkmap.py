"""Reads lld's map of a link: which bytes of which input were kept, after the linker left out what nothing uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

Kept = Mapping[str, Mapping[str, int]]
"""Bytes kept of each section of each input, by the names that the linker saw; "libx.a(y.o)" is an archive's member."""

INTERNAL = "<internal>"
"""What the linker made itself: tables, and strings merged from several inputs."""
_LINE = re.compile(r"[ 0-9a-f]{16} [ 0-9a-f]{16} ([ 0-9a-f]{8}) [ 0-9]{5} {9}(\S.*?):\((.*)\)")


def read(text: str) -> dict[str, dict[str, int]]:
    """The inputs of a map with the sizes of their sections in bytes; what the linker made itself is left out."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] == INTERNAL:
            continue
        sections = found.setdefault(match[2], {})
        name = match[3].partition("+0x")[0]  # .eh_frame comes in pieces
        sections[name] = sections.get(name, 0) + int(match[1], 16)
    return found
