"""What all runners have in common: the limits of a compile, its progress, why one failed, and what a runner is.

A runner compiles what a scratch folder's "in" holds and returns a result that was checked here (`containers.result`),
by this process: nothing that the compile says about itself is believed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from containers import result
from containers.result import Accepted
from kernelfarm import canonical
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution

MODULE = ("-s", "-P", "-m", "kernelc")
"""The compiler's module for Python: neither user packages nor the working folder are importable; not `-I`, which would
ignore PYTHONHASHSEED=0."""

DOCKER = "docker"
"""Name of the runner in `containers.docker`, which only who uses it imports."""

LOOK_S = 0.25
"""Seconds between two looks at what a compile uses."""
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
    """Limits of a compile and its children.

    `cpu_s` seconds of processor time and `address_space` bytes for each process; `wall_s` seconds of real time;
    `file_size` bytes of each file. Address space is much larger than what is resident: MLIR maps 0.7 GB of libraries.
    Sealed runners also hold all processes of a compile together to `address_space` bytes resident, to `processes`
    processes and threads, `output` bytes and `output_files` files and folders in its output, `temporary` bytes of
    temporary files, and Docker to the time of `cores` processors (0: all).
    """

    cpu_s: int = 1800
    wall_s: float = 3600.0
    address_space: int = 8 * _GIB
    file_size: int = 4 * _GIB
    processes: int = 256
    output: int = 6 * _GIB
    output_files: int = 20_000
    temporary: int = 2 * _GIB
    cores: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A line of the child's progress: in `stage`, `done` of `total` steps; `name` is what it works on."""

    stage: str
    done: int
    total: int
    name: str


@dataclass(frozen=True, slots=True)
class Tag:
    """Which attempt a compile belongs to; zeros for one that the ledger does not know."""

    run: int = 0
    fencing: int = 0


OnProgress = Callable[[Progress], None]


class Runner(Protocol):
    """A way to run a compile."""

    @property
    def name(self) -> str:
        """Its name in execution keys and for `--runner`."""

    @property
    def sealed(self) -> bool:
        """Whether a hostile compile is kept from everything but its input and output."""

    def execution(self) -> Execution:
        """What the execution key adds to the recipe when this runner compiles."""

    def with_environment(self, extra: Mapping[str, str]) -> Runner:
        """The same runner whose compiles get these variables too."""

    def compile_in(
        self,
        scratch: Path,
        *,
        log_path: Path | None = None,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        objects: Path | None = None,
        tag: Tag = Tag(),
    ) -> tuple[Accepted, ChildResult]:
        """Compile what `scratch`/in holds (request.json, model.onnx, its external data); the checked result.

        `scratch` is an absolute folder of this compile alone; `scratch`/out is made here. `objects` is a folder of
        objects that the compile may read (`kernelfarm.objects`).

        Raises `FarmError`: what the child reported in error.json; CHILD_* when it died or ran past a limit;
        RUNNER_UNAVAILABLE or RUNNER_LOST when the machine failed it; RESULT_REFUSED for a result that is not what it
        should be. Whatever is raised, also KeyboardInterrupt, nothing of the compile runs on.
        """

    def shell(self, scratch: Path, words: Sequence[str], limits: Limits) -> int:
        """Run a program of a person's in the place of a compile, on their terminal; its exit status, 128 + N after
        signal N. Without `words` it is a shell. Raises as `compile_in` where there is no sandbox.
        """

    def sweep(self) -> int:
        """End what compiles left whose worker is gone, also by kill -9; how much that was. Harms no living one."""


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


def line_reader(on_progress: OnProgress | None) -> Callable[[str], None] | None:
    """A reader of the child's lines that hands their progress on."""
    if on_progress is None:
        return None

    def read(line: str) -> None:
        progress = parse_progress(line)
        if progress is not None:
            on_progress(progress)

    return read


def failure(ended: ChildResult, out_dir: Path, log_tail: str, limits: Limits) -> FarmError:
    """Why a child failed: its own report where it could still write one, else what its end shows."""
    rss = f"largest resident set {ended.max_rss_bytes >> 20} MiB"
    if ended.timed_out:
        return limit(Code.CHILD_TIMEOUT, f"it ran longer than {limits.wall_s:g} s", log_tail)
    if ended.signal == signal.SIGXCPU:
        return limit(Code.CHILD_TIMEOUT, f"it used more than {limits.cpu_s} s of processor time", log_tail)
    if ended.signal == signal.SIGXFSZ:
        return limit(Code.CHILD_FILE_SIZE, f"it wrote a file of more than {limits.file_size} bytes", log_tail)
    reported = result.read_error(out_dir)
    if reported is not None:
        return reported
    if _FILE_SIZE_SIGN in log_tail:
        return limit(Code.CHILD_FILE_SIZE, f"it wrote a file of more than {limits.file_size} bytes", log_tail)
    if any(sign in log_tail for sign in _MEMORY_SIGNS):
        return limit(Code.CHILD_MEMORY, f"it asked for more than {limits.address_space >> 20} MiB ({rss})", log_tail)
    if ended.signal is not None:
        why = f"signal {_signal_name(ended.signal)}, {rss}"
        return limit(Code.CHILD_KILLED, why, log_tail)
    return FarmError(
        Code.CHILD_CRASHED,
        "the compiler ended without a result",
        f"exit status {ended.status}",
        "Read its log with `farm logs`, and report it.",
        detail={"log_tail": log_tail},
    )


def limit(code: Code, why: str, log_tail: str = "") -> FarmError:
    """The error of a compile that ran past a limit."""
    what = {
        Code.CHILD_TIMEOUT: "the compiler ran past its time limit",
        Code.CHILD_MEMORY: "the compiler ran past its memory limit",
        Code.CHILD_FILE_SIZE: "the compiler wrote too large a file",
        Code.CHILD_OUTPUT: "the compiler wrote too much",
        Code.CHILD_KILLED: "the compiler was killed",
    }[code]
    advice = "Nothing of it was kept. Try a smaller --shape, or a machine with more memory."
    return FarmError(code, what, why, advice, detail={"log_tail": log_tail})


def require_output(folder: Path, limits: Limits) -> None:
    """Raise CHILD_OUTPUT when a folder that a compile writes holds more than it may.

    Counts what lies on the disk, not the sizes that sparse files claim.
    """
    total, count = 0, 0
    waiting = [os.fspath(folder)]
    while waiting:  # ends, for the names that it looks at are counted
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    count += 1
                    if total > limits.output:
                        raise limit(Code.CHILD_OUTPUT, f"its output is larger than {limits.output >> 20} MiB")
                    if count > limits.output_files:
                        raise limit(Code.CHILD_OUTPUT, f"its output is more than {limits.output_files} files")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:  # it went away, it is closed to us, its path is too long: the result will be refused for it
            continue


def tail(log_path: Path | None) -> str:
    """The last part of a log file; empty without one."""
    if log_path is None:
        return ""
    try:
        with log_path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _LOG_TAIL))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
