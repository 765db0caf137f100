"""Gives a finished folder its name in one step: readers see the old folder or the new one, never a mixture or none.

`renameat2(RENAME_EXCHANGE)` swaps the two where the file system can; elsewhere the old folder steps aside under a
name that `recover` knows, so that a crash between the two steps loses neither.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kernelfarm import files

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def publish(staged: Path, final: Path) -> None:
    """Move the folder `staged` to `final`, in the same parent; an older folder there then lies at `staged`, or is gone.

    Concurrent publishers of one name take turns; the last one stays. Raises `OSError` as the system does.
    """
    _allow_readers(staged)
    _sync_tree(staged)
    with _turn(final.parent):
        _restore(final)
        if not final.exists():
            staged.rename(final)
        elif not _exchange(staged, final):
            _step_aside(staged, final)
    files.sync_folder(final.parent)


def recover(final: Path) -> None:
    """Undo half a replacement that a crash left at `final`. Raises a coded `FarmError` of class ENVIRONMENT."""
    with files.coded("an interrupted replacement could not be undone", final):
        if _aside(final).exists():
            with _turn(final.parent):
                _restore(final)


def _aside(final: Path) -> Path:
    return final.with_name(f".{final.name}.farm.previous")  # nobody else's: what lies there may be removed


def _restore(final: Path) -> None:
    aside = _aside(final)
    if aside.exists():
        if final.exists():
            files.remove_tree(aside)
        else:
            aside.rename(final)


def _step_aside(staged: Path, final: Path) -> None:
    final.rename(_aside(final))
    staged.rename(final)
    files.remove_tree(_aside(final))


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names atomically; false where the system or the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library without it
        return False
    result = rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    number = ctypes.get_errno()
    if result and number not in _CANNOT:
        raise OSError(number, os.strerror(number), str(second))
    return bool(result == 0)


@contextlib.contextmanager
def _turn(parent: Path) -> Iterator[None]:
    """Hold the lock of a folder itself: leaves no lock file among the user's own."""
    handle = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _allow_readers(staged: Path) -> None:
    """A temporary folder is private; a finished one has the permissions that the user's umask gives."""
    mask = os.umask(0)
    os.umask(mask)
    staged.chmod(0o777 & ~mask)


def _sync_tree(folder: Path) -> None:
    for inner in sorted(folder.iterdir()):
        if inner.is_dir():
            _sync_tree(inner)
        else:
            with inner.open("rb") as stream:
                os.fsync(stream.fileno())
    files.sync_folder(folder)
