"""Shows folders that only root may reach to a program that runs as nobody: `python -I -S _stage.py SPEC`, as root.

In a mount namespace of its own it binds them under a place that anyone may enter, gives up root for good and becomes
the program. So bubblewrap works for an unprivileged user even where the farm's user is root: the limit of processes
does not bind root, and root owns /proc/sys. Standard library only.

SPEC is JSON: argv, user, binds ({name: path}): the folders appear as PLACE/name.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

PLACE = "/tmp"
_CLONE_NEWNS = 0x20000
_MS_REC, _MS_PRIVATE, _MS_BIND, _MS_NOSUID, _MS_NODEV = 0x4000, 0x40000, 0x1000, 0x2, 0x4
_PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    """Become the program; never returns."""
    spec = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)

    def call(done: int, what: str) -> None:
        if done != 0:
            raise SystemExit(f"{what}: {os.strerror(ctypes.get_errno())}")

    def mount(source: str, place: str, kind: str | None, flags: int, options: str | None = None) -> None:
        words = [None if text is None else text.encode() for text in (source, place, kind)]
        call(libc.mount(*words, ctypes.c_ulong(flags), options and options.encode()), f"mounting {place}")

    call(libc.unshare(_CLONE_NEWNS), "a mount namespace")
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    opened = {name: os.open(path, os.O_PATH) for name, path in sorted(spec["binds"].items())}  # PLACE may be above them
    mount("tmpfs", PLACE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=64k")
    for name, handle in opened.items():
        (Path(PLACE) / name).mkdir(mode=0o755)
        mount(f"/proc/self/fd/{handle}", f"{PLACE}/{name}", None, _MS_BIND | _MS_REC)
    os.chdir("/")
    os.setgroups([])
    os.setresgid(*[spec["user"]] * 3)
    os.setresuid(*[spec["user"]] * 3)
    call(libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "no new privileges")
    os.execve(spec["argv"][0], spec["argv"], {})


if __name__ == "__main__":
    main()
