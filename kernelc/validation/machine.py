"""Compiled kernels on this machine, one call at a time, in memory that shows mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelfarm.errors import Code, FarmError
from toolchains import processor, target, zig
from toolchains.machines import MACHINES
from toolchains.target import Target

_PORTABLE = "x86-64-v3"
"""What kernels of machines that this one is not are compiled for as well, to be run here."""
_RUNNER = Path(__file__).with_name("runner.py")
_GUARD = 192
_UNWRITTEN = 0xFF
"""A float32 of such bytes is NaN."""
_LINE = 64
_PAGE = 4096
"""What lies behind the end of a file in its last page can be written, and is lost: guards reach to the end of one."""


def host_of(wanted: Target) -> Target | None:
    """The target that kernels are compiled for to be run here: their own one where this processor runs it.

    None where this processor runs neither. What it is decides no byte of a payload.
    """
    portable = target.load(_PORTABLE)
    return next((one for one in (wanted, portable) if processor.runs(one)), None)


@dataclass(frozen=True, slots=True)
class Argument:
    """Memory of an operand: its bytes, None for the result of `size` bytes. `apart`: aligned to four bytes only."""

    size: int
    data: bytes | None
    apart: bool = False


class CrashedError(Exception):
    """A kernel took its process down; the text says how."""


class OutsideError(Exception):
    """A kernel wrote where it may not; the text says where."""


class Machine:
    """Runs tile functions of `objects` (by symbol); a context manager, since it holds a process."""

    def __init__(self, objects: dict[str, Path], host: Target, folder: Path) -> None:
        folder.mkdir()
        self._numbers = {symbol: number for number, symbol in enumerate(sorted(objects))}
        self._memory = folder / "memory"
        library = _link(objects, host, folder)
        argv = [sys.executable, "-I", str(_RUNNER), str(library), str(self._memory), str(len(objects))]
        pipe = subprocess.PIPE
        self._said = folder / "stderr"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=said, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def call(self, symbol: str, arguments: Sequence[Argument], ranges: Sequence[tuple[int, int]]) -> bytes:
        """The bytes of the result after the function ran over `ranges`.

        Raises `CrashedError`, and `OutsideError` where it wrote anything but the result.
        """
        places, memory = _laid_out(arguments)
        self._memory.write_bytes(memory.tobytes())
        self._send({"function": self._numbers[symbol], "operands": places, "ranges": [list(one) for one in ranges]})
        found = np.fromfile(self._memory, np.uint8)
        result = next(number for number, argument in enumerate(arguments) if argument.data is None)
        first, last = places[result], places[result] + arguments[result].size
        if found.size != memory.size or _differ(found[:first], memory[:first]) or _differ(found[last:], memory[last:]):
            raise OutsideError(_where(found, memory, places, arguments, result))
        return found[first:last].tobytes()

    def _send(self, task: dict[str, Any]) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone: what it answers says so
        if self._process.stdout.readline() == "done\n":
            return
        status = self._process.wait()
        if status < 0:
            raise CrashedError(f"it ended by signal {-status}")
        lines = self._said.read_text(encoding="utf-8", errors="replace").splitlines()
        raise FarmError(
            Code.TOOL_FAILED,
            "the compiled kernels could not be run",
            "; ".join(lines[-1:]) or f"status {status}",
            "`farm doctor` says what is missing.",
        )


def _link(objects: dict[str, Path], host: Target, folder: Path) -> Path:
    names = sorted(objects)
    lines = ["typedef void tile(void *, long long, long long);"]
    lines += [f'__attribute__((visibility("hidden"))) tile {name};' for name in names]
    lines += ['__attribute__((visibility("default")))', "tile *kf_validated[] = {" + ", ".join(names) + "};", ""]
    table = folder / "validated.c"
    table.write_text("\n".join(lines), encoding="ascii")
    made = table.with_suffix(".o")
    zig.compile_c(table, made, host)
    library = folder / "validated.so"
    flags = ["-shared", "-e", "kf_validated", *MACHINES[host.machine].link]
    script = "{ global: kf_validated; local: *; };\n"
    zig.link([*objects.values(), made], library, flags, version_script=script)
    return library


def _laid_out(arguments: Sequence[Argument]) -> tuple[list[int], NDArray[np.uint8]]:
    """Where each lies in a memory with guards around everything, and that memory."""
    places, end = [], 0
    for argument in arguments:
        start = -(-(end + _GUARD) // _LINE) * _LINE + 4 * argument.apart
        places.append(start)
        end = start + argument.size
    memory = _guards(-(-(end + _PAGE) // _PAGE) * _PAGE)
    for place, argument in zip(places, arguments, strict=True):
        fill = _UNWRITTEN if argument.data is None else np.frombuffer(argument.data, np.uint8)
        memory[place : place + argument.size] = fill
    return places, memory


def _guards(size: int) -> NDArray[np.uint8]:
    """Memory of numbers from 2 to 4, each another one: a copy from one guard into another shows, and so does a sum."""
    scattered = np.arange(size // 4, dtype=np.uint32) * np.uint32(0x9E3779B1)  # Fibonacci hashing, Knuth vol. 3, 6.4
    return (scattered >> np.uint32(9) | np.uint32(0x40000000)).view(np.uint8)


def _differ(found: NDArray[np.uint8], expected: NDArray[np.uint8]) -> bool:
    return not np.array_equal(found, expected)


def _where(
    found: NDArray[np.uint8],
    memory: NDArray[np.uint8],
    places: Sequence[int],
    arguments: Sequence[Argument],
    result: int,
) -> str:
    size = min(found.size, memory.size)
    changed = np.flatnonzero(found[:size] != memory[:size])
    first, last = places[result], places[result] + arguments[result].size
    byte = next((int(each) for each in changed if not first <= each < last), size)
    for number, (place, argument) in enumerate(zip(places, arguments, strict=True)):
        if place <= byte < place + argument.size:
            return f"it wrote byte {byte - place} of its operand {number}"
    where = f"{first - byte} bytes before" if byte < first else f"{byte - last} bytes behind"
    return f"it wrote {where} its result"
