"""The first process inside a sandbox, number 1; given to its Python as text: `python -I -S -c SOURCE SPEC`.

It sets what can only be set inside, starts the program, and ends with it, and with all that the program started. What
this process ends with is its word, which no program inside can say for it: see `_told`. The filter of system calls is
upon this process too and nobody may look into it: the program is the same user, and what it could write into an
unfiltered process would run there.
Standard input may be a line to the worker (`silence_s` is not 0): it says something all the time; when it ends or is
silent for so many seconds, the worker or the engine between is gone, and everything stops with status LOST. Standard
library only.

SPEC is JSON: argv, limits ({resource name: number}), filter (base64 of a seccomp program, "" for none), silence_s,
wall_s (seconds; a second line behind the runner's own clock), report (it is a compile: a last line of output tells
what it took, and its status is told apart from the words of this process).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

_ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_NOT_STARTED = 127
ENDED = 128
"""Above it is how a shell or an engine tells of a signal; for a compile's sandbox, of one that ended this process."""
SIGNALLED = 160
"""Above it is how this process tells of a signal that ended a compile."""
LOST = 97
_FAILED = 1


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> int:
    """Run the program of the SPEC; the exit status."""
    spec = json.loads(sys.argv[1])
    wake, notify = os.pipe()
    os.set_blocking(notify, False)
    signal.set_wakeup_fd(notify)
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal, ctrl-C is for the program
    signal.alarm(max(1, int(spec["wall_s"])))
    try:
        _close(spec["filter"])
    except OSError as reason:
        return _not_started(spec, reason)
    child = os.fork()
    if child == 0:
        _become(spec)
    status = _wait(child, wake, silence_s=spec["silence_s"], compiling=spec["report"])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # Linux counts KiB
    if spec["report"]:
        with contextlib.suppress(OSError):  # nobody reads any more
            os.write(1, b'\n{"max_rss_bytes":%d}\n' % peak)
    return status


def _wait(child: int, wake: int, *, silence_s: float, compiling: bool) -> int:
    watched = [wake, 0] if silence_s else [wake]
    heard = time.monotonic()
    while True:
        left = max(0.0, heard + silence_s - time.monotonic()) if silence_s else None
        ready, _, _ = select.select(watched, [], [], left)
        if 0 in ready:
            if not os.read(0, 4096):
                return LOST
            heard = time.monotonic()
        elif silence_s and time.monotonic() >= heard + silence_s:
            return LOST
        if wake not in ready:
            continue
        if signal.SIGALRM in os.read(wake, 4096):
            return _told(-signal.SIGKILL, compiling=compiling)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return _NOT_STARTED
            if pid == 0:
                break
            if pid == child:
                return _told(os.waitstatus_to_exitcode(status), compiling=compiling)


def _told(code: int, *, compiling: bool) -> int:
    """What this process ends with after a program that ended with `code`, which is -N after signal N.

    A person's program is told of as shells do it. A compile must not pass for a sandbox that was lost, which would be
    tried again: whatever status it gives itself, it is below LOST.
    """
    if not compiling:
        return code if code >= 0 else ENDED - code
    if code < 0:
        return SIGNALLED - code
    if code < LOST:
        return code
    with contextlib.suppress(OSError):
        os.write(2, f"\nthe program's status {code} counts as {_FAILED}\n".encode())
    return _FAILED


def _become(spec: dict[str, Any]) -> None:
    """Turn the forked process into the program; never returns."""
    try:
        if spec["silence_s"]:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # ignored so far, and exec would pass that on
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        for name, value in sorted(spec["limits"].items()):
            beyond = int(name == "RLIMIT_CPU")  # SIGXCPU at the one and SIGKILL at the other
            resource.setrlimit(getattr(resource, name), (value, value + beyond))
        os.execve(spec["argv"][0], spec["argv"], dict(os.environ))
    except (OSError, ValueError) as reason:
        _not_started(spec, reason)
    finally:
        os._exit(_NOT_STARTED)


def _not_started(spec: dict[str, Any], reason: Exception) -> int:
    os.write(2, f"the sandbox could not start {spec['argv'][0]}: {reason}\n".encode())
    return _NOT_STARTED


def _close(program: str) -> None:
    """Close this process, and those that it will start, to what none of them needs."""
    _fix_addresses()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, *[ctypes.c_ulong(0)] * 4) != 0:
        raise OSError(ctypes.get_errno(), "the memory of the sandbox's first process could not be closed")
    if program:
        _load(base64.b64decode(program))


def _fix_addresses() -> None:
    """No address space randomisation for the program: a compiler that orders by pointers does so alike each time."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.personality(ctypes.c_ulong(_ADDR_NO_RANDOMIZE)) == -1:
        raise OSError(ctypes.get_errno(), "addresses could not be fixed (personality)")


def _load(program: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    described = _Program(len(program) // 8, program)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero),
        (_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(described), zero, zero),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls was not loaded")


if __name__ == "__main__":
    sys.exit(main())
