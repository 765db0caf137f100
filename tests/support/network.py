"""Another host, as far as one machine can play it: a network namespace with an address and without a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import services

_HIDE = 'mount -t tmpfs none "$1" && shift && exec "$@"'


@dataclass(frozen=True, slots=True)
class OtherHost:
    """A namespace: `here` is this side's address, as the namespace sees it; `there` its own."""

    name: str
    here: str
    there: str

    def argv(self, argv: Sequence[str], *, without: Path) -> list[str]:
        """The command that runs `argv` over there, where the folder `without` is an empty one."""
        ip = services.program("ip", "iproute2")
        return [
            ip,
            "netns",
            "exec",
            self.name,
            "sh",
            "-c",
            _HIDE,
            "sh",
            str(without),
            *argv,
        ]


@contextmanager
def other_host() -> Iterator[OtherHost]:
    """A namespace joined to this machine by a pair of virtual interfaces; needs root and iproute2."""
    ip = services.program("ip", "iproute2")
    if os.geteuid() != 0:
        services.missing("a network namespace needs root")
    number = os.getpid() % 16000  # one namespace at once in a process; 10.211.0.0/16 in pieces of four addresses
    low, high = number * 4 % 256, number * 4 // 256
    made = OtherHost(f"kf-{os.getpid()}", f"10.211.{high}.{low + 1}", f"10.211.{high}.{low + 2}")
    inside, outside = f"kfi{os.getpid()}", f"kfo{os.getpid()}"
    steps = (
        ("netns", "add", made.name),
        ("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", made.name),
        ("addr", "add", f"{made.here}/30", "dev", outside),
        ("link", "set", outside, "up"),
        ("-n", made.name, "addr", "add", f"{made.there}/30", "dev", inside),
        ("-n", made.name, "link", "set", inside, "up"),
    )
    try:
        for step in steps:
            done = subprocess.run([ip, *step], capture_output=True, text=True, check=False)
            if done.returncode:
                services.missing(f"`ip {' '.join(step)}`: {done.stderr.strip()}")
        yield made
    finally:
        for step in (("netns", "del", made.name), ("link", "del", outside)):
            subprocess.run([ip, *step], capture_output=True, check=False)
