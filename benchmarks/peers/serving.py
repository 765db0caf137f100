"""The side of the runtime in a benchmark's server: one process, one runtime, one model, commands on standard input.

A message is a line of JSON and, as its "bytes" say, raw bytes behind it. A server is started as
`python serve_X.py CORES` and pins itself to these cores before it imports its runtime. Commands, and what is answered:

    load      what `Load` holds, inputs as bytes   {"version", "seconds"} or {"refused": why}
    turn      {"ns", "least"}                      {"cpu", "wall": nanoseconds of each run, "cpu_ns", "wall_ns": of all}
    outputs   {}                                   the bytes of all outputs, one after another
    threads   {"cores"}                            {"strays": how many threads may run on other cores}

and those that a server adds. It imports nothing but NumPy: each server has an environment of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Command = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Load:
    """What to load: a model file whose inputs have these names and shapes, in its order; the values to run it with.

    `folder` keeps what is worth keeping between processes (compiled models); `more` is what one server alone reads.
    """

    model: Path
    inputs: Mapping[str, Array]
    outputs: Mapping[str, tuple[int, ...]]
    threads: int
    folder: Path
    more: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to run on the inputs given: `run` is one inference, `outputs` the answers of the last one."""

    version: str
    run: Callable[[], object]
    outputs: Callable[[], Sequence[Array]]
    commands: Mapping[str, Command] | None = None


def main(load: Callable[[Load], Loaded]) -> None:
    """Serve until the input ends; `load` raises any exception for a model that the runtime does not take."""
    os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a runtime prints is no answer
    loaded: Loaded | None = None
    kept = []
    while line := asked.readline():
        request = json.loads(line)
        if request["do"] == "load":
            wanted = _wanted(request, asked.read(request["bytes"]))
            kept.append(wanted)  # a runtime may hold no more than addresses of the inputs
            loaded, said = _load(load, wanted)
            send(answers, said)
        elif loaded is None:
            send(answers, {"refused": "nothing is loaded"})
        elif request["do"] == "outputs":
            send(answers, {}, b"".join(np.ascontiguousarray(one, np.float32).tobytes() for one in loaded.outputs()))
        else:
            send(answers, _answer(loaded, request))


def send(stream: IO[bytes], message: Mapping[str, Any], data: bytes = b"") -> None:
    """Write one message."""
    stream.write(json.dumps({**message, "bytes": len(data)}).encode() + b"\n" + data)
    stream.flush()


def _wanted(request: Mapping[str, Any], data: bytes) -> Load:
    inputs, place = {}, 0
    for item in request["inputs"]:
        count = int(np.prod(item["shape"], dtype=np.int64))
        inputs[item["name"]] = np.frombuffer(data, np.float32, count, place).reshape(item["shape"]).copy()
        place += 4 * count
    outputs = {item["name"]: tuple(item["shape"]) for item in request["outputs"]}
    return Load(
        Path(request["model"]), inputs, outputs, request["threads"], Path(request["folder"]), request.get("more", {})
    )


def _load(load: Callable[[Load], Loaded], wanted: Load) -> tuple[Loaded | None, dict[str, Any]]:
    began = time.monotonic()
    try:
        loaded = load(wanted)
        loaded.run()
        got = [tuple(one.shape) for one in loaded.outputs()]
    except Exception as reason:  # noqa: BLE001  # whatever a foreign runtime raises is its refusal
        return None, {"refused": _first_words(reason)}
    if got != list(wanted.outputs.values()):
        return None, {"refused": f"it answers shapes {got}, not {list(wanted.outputs.values())}"}
    return loaded, {"version": loaded.version, "seconds": time.monotonic() - began}


def _first_words(reason: Exception) -> str:
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    told = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return f"{type(reason).__name__}: {told}"[:300]


def _answer(loaded: Loaded, request: Mapping[str, Any]) -> dict[str, Any]:
    if request["do"] == "turn":
        return turn(loaded.run, request["ns"], request["least"])
    if request["do"] == "threads":
        return {"strays": strays(frozenset(request["cores"]))}
    return (loaded.commands or {})[request["do"]](request)


def turn(run: Callable[[], object], nanoseconds: int, least: int) -> dict[str, Any]:
    """Run for so long, at least so often. On one core CPU time of the process is exact: whoever waits was counted."""
    cpu, wall = time.process_time_ns, time.perf_counter_ns
    cpus, walls = [], []
    started, started_cpu = wall(), cpu()
    while len(walls) < least or wall() - started < nanoseconds:
        began, began_cpu = wall(), cpu()
        run()
        cpus.append(max(1, cpu() - began_cpu))
        walls.append(max(1, wall() - began))
    return {"cpu": cpus, "wall": walls, "cpu_ns": cpu() - started_cpu, "wall_ns": wall() - started}


def strays(cores: frozenset[int]) -> int:
    """How many threads of this process may run on other cores than these."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            allowed = os.sched_getaffinity(int(task.name))
        except ProcessLookupError:  # it ended meanwhile
            continue
        count += not allowed <= cores
    return count
