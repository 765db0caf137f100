"""Running one tool: no shell, a clean environment, a limit, and an error that keeps what the tool said.

The limit is one of processor time: a limit of real time would let the load of a machine decide how a build ends.
"""

from __future__ import annotations

import contextlib
import resource
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelfarm.errors import Code, FarmError

CPU_S = 1800
"""Seconds of processor time of one tool; one that runs in a compile keeps that compile's limit where it is lower."""
_KEPT = 4000  # characters of a tool's output in an error


_NEXT = "Build again with --no-cache; the tool's own command is in the error's detail (--json) and in the run's log."
"""The tool ran in a private folder that is gone when somebody reads this: no command line would work by itself."""


def run_tool(
    argv: Sequence[str], *, cwd: Path, cpu_s: int = CPU_S, extra_env: Mapping[str, str] | None = None, what: str
) -> str:
    """Standard output of the tool. `what` says what it was to do, for the error.

    Raises `FarmError` TOOL_FAILED with its standard error and the command that replays it; TOOL_TIMEOUT; TOOL_MISSING.
    """
    env = {"PATH": "", "LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "0", "HOME": str(cwd), **(extra_env or {})}
    replay = f"cd {shlex.quote(str(cwd))} && {shlex.join(argv)}"
    try:
        done = _run(argv, cwd, env, cpu_s)
    except OSError as reason:
        raise FarmError(
            Code.TOOL_MISSING,
            f"{what} could not start",
            f"{argv[0]}: {reason.strerror}",
            "`farm doctor` says what is missing.",
            {"tool": argv[0]},
        ) from reason
    if done.returncode == -signal.SIGXCPU:
        raise FarmError(
            Code.TOOL_TIMEOUT,
            f"{what} took too much processor time",
            "it was ended at its limit",
            _NEXT,
            {"replay": replay},
        )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        status = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        raise FarmError(
            Code.TOOL_FAILED,
            f"{what} failed with {status}",
            said[-_KEPT:],
            _NEXT,
            {"replay": replay, "stderr": said[-_KEPT:]},
        )
    return done.stdout.decode("utf-8", "replace")


def _run(argv: Sequence[str], cwd: Path, env: Mapping[str, str], cpu_s: int) -> subprocess.CompletedProcess[bytes]:
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        try:
            with contextlib.suppress(ProcessLookupError):  # it ended already
                _limit(process.pid, cpu_s)
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _limit(pid: int, cpu_s: int) -> None:
    """Set from here: what a child runs before its program starts is not safe in a process with threads."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    lowest = min([cpu_s, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
    resource.prlimit(pid, resource.RLIMIT_CPU, (lowest, hard))
