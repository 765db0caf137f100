"""Where the farm keeps its state: `$FARM_HOME`, by default the XDG state folder.

Nothing here reaches an output or a key. Also the way round the 107 bytes that the address of a Unix socket may have.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

SOCKET_LIMIT = 107
"""Bytes that `sockaddr_un.sun_path` holds before its final zero."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of the farm's state and the places in it."""

    root: Path

    @property
    def store(self) -> Path:
        """Content store."""
        return self.root / "store"

    @property
    def ledger(self) -> Path:
        """SQLite file of the ledger."""
        return self.root / "ledger.sqlite3"

    @property
    def keys(self) -> Path:
        """Key files; only the owner may enter."""
        return self.root / "keys"

    @property
    def run(self) -> Path:
        """Sockets, locks and process ids; only the owner may enter."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """A log file per run."""
        return self.root / "logs"

    @property
    def worker_log(self) -> Path:
        """What worker processes say of themselves."""
        return self.logs / "workers.log"

    @property
    def cache(self) -> Path:
        """What may be deleted at any moment."""
        return self.root / "cache"

    @property
    def objects(self) -> Path:
        """Objects of kernels that later compiles may take; may be deleted at any moment."""
        return self.root / "objects"

    def create(self) -> Home:
        """Make the folders, mode 0700, where they are missing; raises a coded `FarmError` of class ENVIRONMENT."""
        with files.coded("the farm's state folder could not be made", self.root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.store, self.keys, self.run, self.logs, self.cache):
                folder.mkdir(mode=0o700, exist_ok=True)
        return self


def home(environ: Mapping[str, str] | None = None) -> Home:
    """The home that `FARM_HOME` names, else the user's XDG state folder. Makes nothing.

    Raises `FarmError` USAGE for the "~" of a user who does not exist.
    """
    chosen = (os.environ if environ is None else environ).get("FARM_HOME", "")
    root = Path(chosen) if chosen else Path(platformdirs.user_state_dir("kernel-farm", appauthor=False))
    try:
        return Home(root.expanduser().absolute())
    except RuntimeError as reason:
        raise FarmError(
            Code.USAGE, f"FARM_HOME is {chosen!r}", str(reason), "Unset FARM_HOME or name a folder with it."
        ) from reason


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address to bind or connect the Unix socket at `path` with, however long `path` is.

    A long one goes through a descriptor of its folder under /proc/self/fd, so the socket still lies at `path`. The
    address is good inside the block and in this process only.
    """
    if len(os.fsencode(path)) <= SOCKET_LIMIT:
        yield str(path)
        return
    with files.coded("the folder of a socket could not be opened", path.parent):
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        os.close(handle)
