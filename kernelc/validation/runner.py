"""Runs kernels in a process of its own: `python -I runner.py LIBRARY MEMORY COUNT`. Standard library only.

The library has an array `kf_validated` of COUNT tile functions. A line on standard input is a JSON object: `function`
is a number, `operands` are places in the file MEMORY in the order of the arguments, `ranges` those of the partition.
After each it writes a line; a kernel that crashes takes this process with it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from collections.abc import Callable
from pathlib import Path


class _Context(ctypes.Structure):
    """struct kf_ctx of runtime/include/kf_abi.h."""

    _fields_ = (("operands", ctypes.c_void_p), ("scratch", ctypes.c_void_p))


_TILE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def main(library: str, memory: str, count: str) -> None:
    """Serve standard input until it ends."""
    functions = (_TILE * int(count)).in_dll(ctypes.CDLL(library), "kf_validated")
    for line in sys.stdin:
        task = json.loads(line)
        with Path(memory).open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            _run(functions[task["function"]], mapped, task["operands"], task["ranges"])
        print("done", flush=True)


def _run(
    function: Callable[[int, int, int], None], mapped: mmap.mmap, places: list[int], ranges: list[list[int]]
) -> None:
    view = ctypes.c_char.from_buffer(mapped)  # released when this returns, else the mapping could not be closed
    base = ctypes.addressof(view)
    operands = (ctypes.c_void_p * len(places))(*(base + place for place in places))
    context = _Context(ctypes.addressof(operands), None)
    for begin, end in ranges:
        function(ctypes.addressof(context), begin, end)


if __name__ == "__main__":
    main(*sys.argv[1:])
