"""A server process of a benchmark, seen from the side that measures (`serving` tells the protocol)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.peers.catalogue import Peer
from farm.agreement import Array
from farm.cases import TensorSpec

LOAD_S = 1800.0
"""Within which a model must be loaded: IREE compiles for minutes."""
ANSWER_S = 600.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")


class RefusedError(Exception):
    """The runtime does not take the model, is not there, or ended; the text says why."""


class Server:
    """One process, pinned to `cores` from its first instruction, as many threads as cores; a context manager.

    Every method raises `RefusedError` for what the server refuses, and when it ends or is silent for too long.
    """

    def __init__(self, peer: Peer, cores: Sequence[int], log: Path) -> None:
        self.name = peer.name
        if not peer.python.is_file():
            raise RefusedError(f"build/peers/{peer.name} is not there: run `make peers`")
        self._log = log
        environment = {"HOME": str(log.parent), "LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", ""), "TZ": "UTC"}
        environment |= dict.fromkeys(_THREAD_VARIABLES, str(len(cores)))
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                [peer.python, "-s", "-E", peer.script, ",".join(map(str, cores))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                cwd=log.parent,
                env=environment,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # a request that a dead server never read
                stream.close()

    def load(
        self,
        model: Path,
        inputs: Mapping[str, Array],
        outputs: Sequence[TensorSpec],
        *,
        threads: int,
        folder: Path,
        more: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Load a model and its inputs: "version" of the runtime, "seconds" that it took, a first run included."""
        request = {
            "do": "load",
            "model": str(model),
            "inputs": [{"name": name, "shape": list(array.shape)} for name, array in inputs.items()],
            "outputs": [{"name": spec.name, "shape": list(spec.shape)} for spec in outputs],
            "threads": threads,
            "folder": str(folder),
            "more": dict(more or {}),
        }
        data = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs.values())
        return self._ask(request, data, within_s=LOAD_S)[0]

    def turn(self, nanoseconds: int, least: int) -> Mapping[str, Any]:
        """Runs for so long, at least so often."""
        return self._ask({"do": "turn", "ns": nanoseconds, "least": least})[0]

    def outputs(self, specs: Sequence[TensorSpec]) -> dict[str, Array]:
        """The answers of the last run."""
        data, found, place = self._ask({"do": "outputs"})[1], {}, 0
        for spec in specs:
            count = int(np.prod(spec.shape, dtype=np.int64))
            found[spec.name] = np.frombuffer(data, np.float32, count, place).reshape(spec.shape)
            place += 4 * count
        return found

    def ask(self, command: str, **more: Any) -> Mapping[str, Any]:
        """Any other command."""
        return self._ask({"do": command, **more})[0]

    def _ask(
        self, request: Mapping[str, Any], data: bytes = b"", within_s: float = ANSWER_S
    ) -> tuple[dict[str, Any], bytes]:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        patience = threading.Timer(within_s, give_up)
        patience.start()
        try:
            process.stdin.write(json.dumps({**request, "bytes": len(data)}).encode() + b"\n" + data)
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline() or b'{"bytes": 0}')
            taken = process.stdout.read(answer.pop("bytes"))
        except BrokenPipeError:
            answer, taken = {}, b""
        finally:
            patience.cancel()
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        if process.poll() is not None or (not answer and not taken):
            raise RefusedError(f"it did not answer within {within_s:.0f} s" if late.is_set() else self._end())
        return answer, taken

    def _end(self) -> str:
        status = self._process.wait()
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        told = next((line.strip() for line in reversed(lines) if line.strip()), "no word")
        return f"it ended with status {status}: {told}"[:300]
