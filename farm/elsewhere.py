"""The launcher of a rebuild: changes its own process (umask, core, host name, listings), then runs the compiler in it.

Usage: python -s -P -m farm.elsewhere SETTINGS MODULE ARGUMENT...   (SETTINGS as `Surroundings.launcher` writes them)
Time zone, locale, home, hash seed and masked CPU features arrive through the environment.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
NO_NAMESPACE = 97
"""Exit status when this machine gives no user namespace, so that the host name cannot be varied."""


def main(arguments: list[str]) -> None:
    """Apply the settings, then run MODULE (or a .py file) with the arguments; without MODULE only apply them."""
    settings = json.loads(arguments[0])
    if settings["host_name"]:
        _rename_host(settings["host_name"])
    os.umask(settings["umask"])
    if settings["core"] >= 0:
        os.sched_setaffinity(0, {settings["core"]})
    if settings["reverse"]:
        reverse_listings()
    if len(arguments) > 1:
        sys.argv = arguments[1:]
        if arguments[1].endswith(".py"):
            runpy.run_path(arguments[1], run_name="__main__")
        else:
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def _rename_host(name: str) -> None:
    """Another host name in a user and UTS namespace of our own; the user and group stay what they are."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0:
        sys.stderr.write(f"no user namespace: {os.strerror(ctypes.get_errno())}\n")
        raise SystemExit(NO_NAMESPACE)
    try:
        socket.sethostname(name)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    except OSError as error:
        sys.stderr.write(f"no host name of our own: {error.strerror}\n")
        raise SystemExit(NO_NAMESPACE) from error


class _Backwards:
    """What `os.scandir` gives, by name from the last to the first."""

    def __init__(self, inner: Any) -> None:
        with inner:
            self._entries = iter(sorted(inner, key=lambda entry: os.fsencode(entry.name), reverse=True))

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Backwards:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """As of `os.scandir`'s iterator: nothing more comes out."""
        self._entries = iter(())


def reverse_listings() -> None:
    """From now on every listing of a folder is sorted backwards, so that reliance on an order shows as a difference."""
    listdir: Any = os.listdir
    scandir: Any = os.scandir
    changed: Any = os
    changed.listdir = lambda *place: sorted(listdir(*place), reverse=True)
    changed.scandir = lambda *place: _Backwards(scandir(*place))


if __name__ == "__main__":
    main(sys.argv[1:])
