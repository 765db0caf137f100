"""The runner `process`: a compile in a limited child process with a clean environment.

It seals nothing off: the child runs as the same user and sees the same disk, so it is for models and a machine that
belong to the same person.
"""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containers import result
from containers.result import Accepted
from kernelfarm import canonical, child, files
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution

NAME = "process"
"""Name of this runner; `signing.statement` calls it the security mode."""

COMPILER: tuple[str, ...] = (sys.executable, "-s", "-P", "-m", "kernelc")
"""Neither user packages nor the working folder are importable; not `-I`, which would ignore PYTHONHASHSEED=0."""

_GIB = 1 << 30
_LOG_TAIL = 4096
_FILE_SIZE_SIGN = "File too large"  # Python ignores SIGXFSZ and reports EFBIG
_MEMORY_SIGNS = (
    "MemoryError",
    "std::bad_alloc",
    "out of memory",
    "Cannot allocate memory",
    "failed to map segment from shared object",  # the dynamic loader's
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a compile and its children: seconds of processor time and of real time, bytes of address space for each
    process and of each file. Address space is much larger than what is resident: MLIR maps 0.7 GB of libraries."""

    cpu_s: int = 1800
    wall_s: float = 3600.0
    address_space: int = 8 * _GIB
    file_size: int = 4 * _GIB


@dataclass(frozen=True, slots=True)
class Progress:
    """A line of the child's progress: in `stage`, `done` of `total` steps; `name` is what it works on."""

    stage: str
    done: int
    total: int
    name: str


def execution() -> Execution:
    """What the execution key adds to the recipe: no image, the builder's architecture, this runner."""
    return Execution(image=None, builder_arch=platform.machine(), runner=NAME)


def environment(scratch: Path) -> dict[str, str]:
    """The whole environment of a compile child; its home and temporary folder is `scratch`/tmp."""
    temp = str(scratch / "tmp")
    return {
        "HOME": temp,
        "LC_ALL": "C",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": "0",
        "TMPDIR": temp,
        "TZ": "UTC",
    }


def compile_in(
    scratch: Path,
    *,
    log_path: Path | None = None,
    limits: Limits | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    program: Sequence[str] = COMPILER,
    extra_environment: Mapping[str, str] | None = None,
) -> tuple[Accepted, ChildResult]:
    """Compile what `scratch`/in holds (request.json, model.onnx, its external data) and return the checked result.

    `scratch` is an absolute folder of this compile alone; `scratch`/out and `scratch`/tmp are made here. The child's
    working folder is `scratch`, and it gets the relative paths "in" and "out", the same ones every time.

    Raises `FarmError`: what the child reported in error.json; CHILD_TIMEOUT, CHILD_MEMORY, CHILD_FILE_SIZE,
    CHILD_KILLED, CHILD_CRASHED when it died; RESULT_REFUSED for a result that is not what it should be.
    """
    bounds = limits or Limits()
    out_dir = scratch / "out"
    with files.coded("a compile could not be prepared", scratch):
        out_dir.mkdir(mode=0o755)
        (scratch / "tmp").mkdir(mode=0o755)
    ended = child.run_limited(
        [*program, "in", "out"],
        env={**environment(scratch), **(extra_environment or {})},
        cwd=scratch,
        cpu_s=bounds.cpu_s,
        wall_s=bounds.wall_s,
        address_space=bounds.address_space,
        file_size=bounds.file_size,
        log_path=log_path,
        on_line=None if on_progress is None else lambda line: _report(line, on_progress),
    )
    if not ended.ok:
        raise failure(ended, out_dir, _tail(log_path), bounds)
    return result.accept(out_dir), ended


def parse_progress(line: str) -> Progress | None:
    """The progress that a line of the child's output spells, or None: the child may print anything."""
    if not line.startswith("{"):
        return None
    try:
        data: Any = canonical.loads(line.encode("utf-8", "replace"), name="progress")
    except FarmError:
        return None
    words = [data.get(key) for key in ("stage", "name")]
    counts = [data.get(key) for key in ("done", "total")]
    if not all(isinstance(word, str) and word.isprintable() and len(word) <= 200 for word in words):
        return None
    if not all(type(count) is int and 0 <= count < 1 << 31 for count in counts):
        return None
    return Progress(words[0], counts[0], counts[1], words[1])


def failure(ended: ChildResult, out_dir: Path, log_tail: str, limits: Limits) -> FarmError:
    """Why a child failed: its own report where it could still write one, else what its end shows."""
    rss = f"largest resident set {ended.max_rss_bytes >> 20} MiB"
    if ended.timed_out:
        return _limit(Code.CHILD_TIMEOUT, f"it ran longer than {limits.wall_s:g} s", log_tail)
    if ended.signal == signal.SIGXCPU:
        return _limit(Code.CHILD_TIMEOUT, f"it used more than {limits.cpu_s} s of processor time", log_tail)
    if ended.signal == signal.SIGXFSZ:
        return _limit(Code.CHILD_FILE_SIZE, f"it wrote a file of more than {limits.file_size} bytes", log_tail)
    reported = result.read_error(out_dir)
    if reported is not None:
        return reported
    if _FILE_SIZE_SIGN in log_tail:
        return _limit(Code.CHILD_FILE_SIZE, f"it wrote a file of more than {limits.file_size} bytes", log_tail)
    if any(sign in log_tail for sign in _MEMORY_SIGNS):
        return _limit(Code.CHILD_MEMORY, f"it asked for more than {limits.address_space >> 20} MiB ({rss})", log_tail)
    if ended.signal is not None:
        why = f"signal {_signal_name(ended.signal)}, {rss}"
        return _limit(Code.CHILD_KILLED, why, log_tail)
    return FarmError(
        Code.CHILD_CRASHED,
        "the compiler ended without a result",
        f"exit status {ended.status}",
        "Read its log with `farm logs`, and report it.",
        detail={"log_tail": log_tail},
    )


def _limit(code: Code, why: str, log_tail: str) -> FarmError:
    what = {
        Code.CHILD_TIMEOUT: "the compiler ran past its time limit",
        Code.CHILD_MEMORY: "the compiler ran past its memory limit",
        Code.CHILD_FILE_SIZE: "the compiler wrote too large a file",
        Code.CHILD_KILLED: "the compiler was killed",
    }[code]
    advice = "Nothing of it was kept. Try a smaller --shape, or a machine with more memory."
    return FarmError(code, what, why, advice, detail={"log_tail": log_tail})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _report(line: str, on_progress: Callable[[Progress], None]) -> None:
    progress = parse_progress(line)
    if progress is not None:
        on_progress(progress)


def _tail(log_path: Path | None) -> str:
    if log_path is None:
        return ""
    try:
        with log_path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _LOG_TAIL))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
