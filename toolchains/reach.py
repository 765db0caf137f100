"""Which words of a code section are instructions, where compilers put constants between functions (32-bit Arm).

A stripped file does not say. But code without indirect branches runs only where its entries lead by direct branches and
one instruction behind the other: what is met on the way is code, and nothing else can run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_CONDITION = "(?:eq|ne|hs|lo|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)"
_BRANCH = re.compile(rf"^(?:b|bl){_CONDITION}?\s+(?:#)?0x([0-9a-f]+)")
_END = re.compile(r"^(?:b|bx|bxj|udf|ldr\s+pc,|mov\s+pc,)(?:\s|$)|^(?:ldr|mov)\s+pc,|^(?:pop|ldm\w*)\s.*\bpc\b")
_BYTES = 4


def reached(instructions: Mapping[int, str], entries: Iterable[int]) -> frozenset[int]:
    """Addresses of the instructions that control flow can reach from the entries, given what stands at each address.

    An address without an instruction in the mapping is reached too: a caller finds it undecoded.
    """
    found: set[int] = set()
    waiting = list(entries)
    while waiting:
        at = waiting.pop()
        while at not in found:
            found.add(at)
            text = instructions.get(at, "")
            if match := _BRANCH.search(text):
                waiting.append(int(match[1], 16))
            if not text or _END.search(text):
                break
            at += _BYTES
    return frozenset(found)
