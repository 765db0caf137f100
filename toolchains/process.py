"""Running one tool: no shell, a clean environment, a time limit, and an error that keeps what the tool said."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelfarm.errors import Code, FarmError

_KEPT = 4000  # characters of a tool's output in an error


_NEXT = "Build again with --no-cache; the tool's own command is in the error's detail (--json) and in the run's log."
"""The tool ran in a private folder that is gone when somebody reads this: no command line would work by itself."""


def run_tool(
    argv: Sequence[str], *, cwd: Path, timeout_s: float, extra_env: Mapping[str, str] | None = None, what: str
) -> str:
    """Standard output of the tool. `what` says what it was to do, for the error.

    Raises `FarmError` TOOL_FAILED with its standard error and the command that replays it; TOOL_TIMEOUT; TOOL_MISSING.
    """
    env = {"PATH": "", "LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "0", "HOME": str(cwd), **(extra_env or {})}
    replay = f"cd {shlex.quote(str(cwd))} && {shlex.join(argv)}"
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as reason:
        raise FarmError(
            Code.TOOL_TIMEOUT,
            f"{what} took longer than {timeout_s:g} s",
            next_step=_NEXT,
            detail={"replay": replay},
        ) from reason
    except OSError as reason:
        raise FarmError(
            Code.TOOL_MISSING,
            f"{what} could not start",
            f"{argv[0]}: {reason.strerror}",
            "`farm doctor` says what is missing.",
            {"tool": argv[0]},
        ) from reason
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
