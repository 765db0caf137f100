"""The entry table of a kernel object (`runtime/include/kf_abi.h`), read in the process that loads it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


class KernelTable:
    """`ops`: (function, first operand, number of operands, parts) each; `operands`: (space, index, offset) each.

    `arena_bytes` is what an inference needs beside weights, inputs and outputs.
    """

    def __init__(self, library: Path) -> None:
        self._keep = ctypes.CDLL(str(library))
        address = ctypes.addressof(ctypes.c_char.in_dll(self._keep, "kf_table"))
        head = struct.unpack("<14I3Q2I", ctypes.string_at(address, 88))
        _, size, _, _, n_functions, n_ops, n_operands, _, functions, ops, operands, *_ = head
        self.arena_bytes = int(head[14])
        image = ctypes.string_at(address, size)
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        pointers = [struct.unpack_from("<Q", image, functions + 24 * number + 16)[0] for number in range(n_functions)]
        entries = [prototype(pointer) for pointer in pointers]
        rows = [struct.unpack_from("<4IQ", image, ops + 24 * number) for number in range(n_ops)]
        self.ops = [(entries[function], first, count, parts) for function, first, count, _, parts in rows]
        places = [struct.unpack_from("<2I2Q", image, operands + 24 * number) for number in range(n_operands)]
        self.operands = [(space, index, offset) for space, index, offset, _ in places]


class _Context(ctypes.Structure):
    _fields_ = (("operands", ctypes.c_void_p), ("scratch", ctypes.c_void_p))


def call(function: Any, addresses: Sequence[int], ranges: Iterable[tuple[int, int]]) -> None:
    """Call a function of the table over operands at these addresses, once for each range of parts."""
    operands = (ctypes.c_void_p * len(addresses))(*addresses)
    context = _Context(ctypes.addressof(operands), None)
    for begin, end in ranges:
        function(ctypes.addressof(context), begin, end)
