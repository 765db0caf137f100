"""Run a program in a child process with limits, and leave nothing of it behind.

A launcher process (`_launch.py`) stands between: it sets the limits, adopts every descendant that loses its parent
and kills them all at the end: after the program's own end, the time limit, KeyboardInterrupt or any other exception
here, and also when this process is killed (PR_SET_PDEATHSIG; the thread that called `run_limited` counts as the
parent). Safe to call from any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

LOG_LIMIT = 16 << 20
"""Bytes of a log file; the rest of the output is dropped and a line says so."""
LINE_LIMIT = 64 << 10
"""Bytes of a line that `on_line` gets; the rest of the line is dropped (the log holds it)."""
_GRACE_S = 5.0
_LAUNCHER = Path(__file__).with_name("_launch.py")


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a program ended.

    `status` is its exit status, None when a signal ended it; `signal` is that signal's number, else None.
    `timed_out`: the wall limit was reached (the signal is then SIGKILL). `max_rss_bytes` is the largest resident set
    that any *one* process among the program and its descendants ever had, not their sum (Linux `ru_maxrss` of all
    that were waited for; those that were killed at the end count; those whose own parent ignores SIGCHLD do not). It
    is never under the about 10 MB of the launcher's fork.
    """

    status: int | None
    signal: int | None
    timed_out: bool
    max_rss_bytes: int

    @property
    def ok(self) -> bool:
        """The program ended by itself with status 0."""
        return self.status == 0 and not self.timed_out


def run_limited(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    cwd: Path,
    cpu_s: int | None = None,
    wall_s: float | None = None,
    address_space: int | None = None,
    file_size: int | None = None,
    log_path: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    log_limit: int = LOG_LIMIT,
    umask: int = 0o022,
    fixed_addresses: bool = False,
    on_look: Callable[[int], None] | None = None,
    look_s: float = 0.25,
) -> ChildResult:
    """Run `argv` to its end; `argv[0]` is an absolute path, `env` the whole environment, standard input is empty.

    Limits, None for none: `cpu_s` seconds of processor time and `address_space` bytes for each process, `file_size`
    bytes for each file written, `wall_s` seconds of real time for all. No core is dumped. `on_line` is called in this
    thread with each line of standard output, without its end (a slow one holds the child up). `log_path` is made anew
    and gets both standard output and error, up to `log_limit` bytes. `on_look` is called every `look_s` seconds with
    the launcher's process id: all of the program's processes descend from it. `fixed_addresses` gives them no address
    space randomisation (personality(2)) where the system lets us: what orders by pointers does so alike each time.

    Raises `FarmError` CHILD_NOT_STARTED, or a coded ENVIRONMENT error of the log; what `on_line` and `on_look` raise
    goes through. In each case the program and its descendants are gone before.
    """
    limits = {"RLIMIT_CPU": cpu_s, "RLIMIT_AS": address_space, "RLIMIT_FSIZE": file_size, "RLIMIT_CORE": 0}
    given = {name: value for name, value in limits.items() if value is not None}
    spec = {**_spec(argv, env), "limits": given, "umask": umask, "fixed_addresses": fixed_addresses}
    with LogFile(log_path, log_limit) as log, _launched(spec, cwd) as running:
        pump = _Pump(running, log, on_line, wall_s)
        if on_look is not None:
            pump.watch(on_look, look_s)
        report = pump.run()
    if "errno" in report:
        reason = OSError(report["errno"], report["error"])
        raise _not_started(argv[0], reason) from reason
    return ChildResult(report["status"], report["signal"], pump.timed_out, report["max_rss_bytes"])


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]
    report: int


def _spec(argv: Sequence[str | os.PathLike[str]], env: Mapping[str, str]) -> dict[str, Any]:
    return {
        "argv": [_bytes_text(word) for word in argv],
        "env": {_bytes_text(key): _bytes_text(value) for key, value in sorted(env.items())},
        "parent": os.getpid(),
    }


def _bytes_text(text: str | os.PathLike[str]) -> str:
    return os.fsencode(text).decode("latin-1")  # the launcher may run under another locale: one character per byte


@contextlib.contextmanager
def _launched(spec: dict[str, Any], cwd: Path) -> Iterator[_Running]:
    report, write_end = os.pipe()
    argument = json.dumps({**spec, "report": write_end})
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LAUNCHER), argument],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            pass_fds=(write_end,),
            process_group=0,
        )
    except OSError as reason:
        os.close(report)
        raise _not_started(sys.executable, reason) from reason
    finally:
        os.close(write_end)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield _Running(process, process.stdout, process.stderr, report)
    finally:
        try:
            _stop(process)
        finally:
            for closing in (process.stdout, process.stderr):
                closing.close()
            os.close(report)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the launcher if it runs: it kills its descendants on SIGTERM; where it cannot, the group is killed."""
    try:
        if process.returncode is None:
            process.terminate()
            process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.returncode is None:
            kill_group(process)
            process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a launcher that was not waited for yet, so that the number is still its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _not_started(program: str | os.PathLike[str], reason: OSError) -> FarmError:
    return FarmError(
        Code.CHILD_NOT_STARTED,
        f"{os.fspath(reason.filename or program)} could not be started",
        reason.strerror or str(reason),
        "Run `farm doctor` to see what is missing.",
    )


class LogFile:
    """A log file with a size limit; without a path it takes everything and keeps nothing."""

    def __init__(self, path: Path | None, limit: int = LOG_LIMIT) -> None:
        self._path = path or Path(os.devnull)
        self._left = limit
        self._notice = f"\n[log cut at {limit} bytes]\n".encode()

    def __enter__(self) -> LogFile:
        with files.coded("a log file could not be made", self._path):
            self._file = self._path.open("wb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        """Add bytes while there is room; raises a coded `FarmError` of class ENVIRONMENT."""
        if self._left <= 0:
            return
        kept = data[: self._left]
        self._left -= len(kept)
        with files.coded("a log file could not be written", self._path):
            self._file.write(kept)
            if len(kept) < len(data):
                self._left = 0
                self._file.write(self._notice)


class LineCutter:
    """Cuts a byte stream into lines for a callback; holds at most LINE_LIMIT bytes."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._keep(part)
            self._emit()
        self._keep(rest)

    def finish(self) -> None:
        """The stream ended: a line without its end counts."""
        if self._held:
            self._emit()

    def _keep(self, part: bytes) -> None:
        self._held += part[: LINE_LIMIT - len(self._held)]

    def _emit(self) -> None:
        line, self._held = self._held, b""
        if self._on_line is not None:
            self._on_line(line.removesuffix(b"\r").decode("utf-8", "replace"))


class _Pump:
    """Moves a child's output until its launcher reports, and keeps the time."""

    def __init__(
        self, running: _Running, log: LogFile, on_line: Callable[[str], None] | None, wall_s: float | None
    ) -> None:
        self._running = running
        self._log = log
        self._lines = LineCutter(on_line)
        self._deadline = None if wall_s is None else time.monotonic() + wall_s
        self._report = b""
        self._on_look: Callable[[int], None] | None = None
        self._look_s = 0.0
        self._next_look = 0.0
        self.timed_out = False

    def watch(self, on_look: Callable[[int], None], look_s: float) -> None:
        """Call `on_look` every `look_s` seconds."""
        self._on_look, self._look_s = on_look, look_s
        self._next_look = time.monotonic() + look_s

    def run(self) -> dict[str, Any]:
        """The launcher's report. Reads the pipes to their ends: the launcher leaves none who holds them."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._running.out, selectors.EVENT_READ, self._take_out)
            selector.register(self._running.err, selectors.EVENT_READ, self._log.write)
            selector.register(self._running.report, selectors.EVENT_READ, self._take_report)
            while selector.get_map():
                for key, _events in selector.select(self._patience()):
                    data = os.read(key.fd, 1 << 16)
                    if data:
                        key.data(data)
                    else:
                        selector.unregister(key.fileobj)
                        self._closed(key.fd)
                self._keep_time()
                self._look()
        self._lines.finish()
        if not self._report and self.timed_out:  # it was told to stop before it could begin
            return {"status": None, "signal": int(signal.SIGKILL), "max_rss_bytes": 0}
        if not self._report:
            raise FarmError(Code.CHILD_KILLED, "the launcher of a child process ended without a report")
        report: dict[str, Any] = json.loads(self._report)
        return report

    def _take_out(self, data: bytes) -> None:
        self._log.write(data)
        self._lines.feed(data)

    def _take_report(self, data: bytes) -> None:
        self._report += data

    def _closed(self, handle: int) -> None:
        if handle == self._running.report and not self._report.endswith(b"\n"):
            self._report = b""
            kill_group(self._running.process)  # the launcher is gone: what it left must not hold the pipes open

    def _patience(self) -> float | None:
        times = [self._deadline, None if self._on_look is None else self._next_look]
        known = [when for when in times if when is not None]
        return max(0.0, min(known) - time.monotonic()) if known else None

    def _look(self) -> None:
        if self._on_look is None or time.monotonic() < self._next_look:
            return
        if self._running.process.poll() is None:
            self._on_look(self._running.process.pid)
        self._next_look = time.monotonic() + self._look_s

    def _keep_time(self) -> None:
        if self._deadline is None or time.monotonic() < self._deadline:
            return
        if self.timed_out:  # asked already, and the launcher could not end it
            self._deadline = None
            kill_group(self._running.process)
            return
        self.timed_out = True
        self._deadline = time.monotonic() + _GRACE_S
        self._running.process.terminate()
