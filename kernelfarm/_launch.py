"""The small process between the farm and a limited child; run by `kernelfarm.child` as `python -I -S _launch.py
SPEC`.

It is single-threaded, so what must happen between fork and exec can be written in Python without risk (the farm's
workers have threads). It sets the limits, starts the program, adopts every descendant that loses its parent, and at
the end, whatever the reason, kills all of them: nothing outlives a run. Standard library only: `-S` leaves nothing
else.

SPEC is JSON: argv and env (strings of Latin-1, one character per byte), limits ({resource name: number}), umask,
fixed_addresses, parent (its process id), report (a descriptor). The report is one JSON line: {"status", "signal",
"max_rss_bytes"} or {"errno", "error"}.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
ADDR_NO_RANDOMIZE = 0x0040000
"""Of linux/personality.h: no address space randomisation."""
_NOT_STARTED = 127
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


def main() -> int:
    """Run the program of the SPEC; returns when neither it nor a descendant is left."""
    spec = json.loads(sys.argv[1])
    report = int(spec["report"])
    os.set_inheritable(report, False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored SIGCHLD would be inherited and lose exit statuses
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != spec["parent"]:  # the farm died before the line above
        return 1
    result = json.dumps(_run(spec)).encode()
    with contextlib.suppress(BrokenPipeError):  # nobody is left to read it
        os.write(report, result + b"\n")
    return 0


def _run(spec: dict[str, Any]) -> dict[str, Any]:
    read_end, write_end = os.pipe()  # closed by a successful exec, else carries the reason
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        _become(spec, launcher, write_end)
    os.close(write_end)
    failure = os.read(read_end, 4096)
    result = _result(_wait(child))
    _kill_descendants()
    if failure:
        return dict(json.loads(failure))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # Linux counts KiB
    return {**result, "max_rss_bytes": peak}


def _become(spec: dict[str, Any], launcher: int, failure: int) -> None:
    """Turn the forked process into the program; never returns."""
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:
            os._exit(_NOT_STARTED)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and exec would pass that on
            signal.signal(number, signal.SIG_DFL)
        argv = [text.encode("latin-1") for text in spec["argv"]]
        env = {key.encode("latin-1"): value.encode("latin-1") for key, value in spec["env"].items()}
        os.umask(spec["umask"])
        if spec["fixed_addresses"]:
            # A container around the farm may refuse it (Docker's own profile does); `farm doctor` tells.
            ctypes.CDLL(None).personality(ctypes.c_ulong(ADDR_NO_RANDOMIZE))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for name, value in sorted(spec["limits"].items()):
            _limit(getattr(resource, name), value)
        os.execve(argv[0], argv, env)
    except OSError as reason:
        os.write(failure, json.dumps({"errno": reason.errno, "error": reason.strerror}).encode())
    except (ValueError, OverflowError) as reason:  # a limit that is no number for the system, an argument with a zero
        os.write(failure, json.dumps({"errno": errno.EINVAL, "error": str(reason)}).encode())
    finally:
        os._exit(_NOT_STARTED)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard == resource.RLIM_INFINITY:
        hard = value + 1
    soft = min(value, hard)
    # SIGXCPU comes at the soft limit; a program that ignores it is killed one second later.
    top = min(soft + 1, hard) if which == resource.RLIMIT_CPU else soft
    resource.setrlimit(which, (soft, top))


def _wait(child: int) -> int:
    """Wait status of the program; kills everything when asked to stop (SIGTERM: from the farm, or because it died)."""
    while True:
        if signal.sigwait(_SIGNALS) == signal.SIGTERM:
            os.kill(child, signal.SIGKILL)
            _pid, status = os.waitpid(child, 0)
            return status
        while True:
            pid, status = _reap(os.WNOHANG)
            if pid == child:
                return status
            if pid == 0:
                break


def _reap(options: int) -> tuple[int, int]:
    try:
        return os.waitpid(-1, options)
    except ChildProcessError:
        return 0, 0


def _kill_descendants() -> None:
    """Kill and reap until no child is left: killed processes hand their own children to this one, their subreaper."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number cannot belong to another process
        if _reap(0)[0] == 0:
            return


def _children() -> list[int]:
    listing = Path(f"/proc/self/task/{os.getpid()}/children")
    try:
        return [int(text) for text in listing.read_text().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return _children_by_scan()


def _children_by_scan() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid():
            found.append(int(folder.name))
    return found


def _result(status: int) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    return {"status": code, "signal": None} if code >= 0 else {"status": None, "signal": -code}


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main())
