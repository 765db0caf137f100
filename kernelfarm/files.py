"""Files that appear whole or not at all, temporary names that a crash does not leave for ever, directory locks.

A temporary file or folder has a name that `temp_name` gives and lives beside its final place. Its owner holds `flock`
on it: the kernel drops that lock when the owner dies, however it dies, so `sweep` removes exactly what nobody owns any
more. It may lie in a folder of the user's: nothing of another name is ever touched there.

A folder that many read at once (an image, code) is kept whole by those who are `using` it, by `flock` too: `replace`
and `discard` take only its name away until the last of them has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import filelock

from kernelfarm.errors import Code, FarmError

TEMP_PREFIX = ".tmp-farm-"
_TEMP_NAME = re.compile(re.escape(TEMP_PREFIX) + "[0-9a-f]{16}")

_CODES = {
    errno.ENOSPC: (Code.DISK_FULL, "Free some space and run the command again."),
    errno.EDQUOT: (Code.DISK_FULL, "Free some space or raise the quota, then run the command again."),
    errno.EROFS: (Code.READ_ONLY, "Choose a folder on a writable file system."),
    errno.EACCES: (Code.PERMISSION, "Change the permission or choose another folder."),
    errno.EPERM: (Code.PERMISSION, "Change the permission or choose another folder."),
    errno.ENOENT: (Code.FILE_MISSING, "Check the path."),
    errno.ENOTDIR: (Code.FILE_MISSING, "Check the path: a part of it is a file."),
    errno.ENAMETOOLONG: (Code.PATH_TOO_LONG, "Choose a shorter path."),
}


def error_of(reason: OSError, what: str, path: Path) -> FarmError:
    """The coded error of a failed file operation: `what` could not be done, the file, the system's reason."""
    code, next_step = _CODES.get(
        reason.errno or 0, (Code.FILE_IO, "Check the path and the disk, then run the command again.")
    )
    why = f"{path}: {reason.strerror or reason}"
    return FarmError(code, what, why, next_step, detail={"file": str(path)})


@contextlib.contextmanager
def coded(what: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a coded error about `path`."""
    try:
        yield
    except OSError as reason:
        raise error_of(reason, what, path) from reason


def atomic_write(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that its name holds the old bytes or all the new ones, also after a crash or a full disk.

    `mode` is set exactly, whatever the umask. The folder must exist. Raises a coded `FarmError` of class ENVIRONMENT.
    """
    with coded("a file could not be written", path), temp_file(path.parent, mode=mode) as (stream, temp):
        stream.write(data)
        commit(stream, temp, path)


def commit(stream: BinaryIO, temp: Path, path: Path) -> None:
    """Give a finished `temp_file` its final name, durably: the bytes reach the disk before the name does."""
    stream.flush()
    os.fsync(stream.fileno())
    temp.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def temp_file(folder: Path, *, mode: int = 0o644) -> Iterator[tuple[BinaryIO, Path]]:
    """An owned temporary file in `folder`, open for writing; removed at the end unless it was renamed (`commit`).

    Raises `OSError` as the system does.
    """
    path, handle = _owned_file(folder)
    with os.fdopen(handle, "wb") as stream:
        try:
            os.fchmod(handle, mode)
            yield stream, path
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def temp_folder(parent: Path) -> Iterator[Path]:
    """An owned temporary folder in `parent`, mode 0700; removed with all it holds at the end unless it was renamed.

    Raises `OSError` as the system does.
    """
    path, handle = _owned_folder(parent)
    try:
        yield path
    finally:
        try:
            remove_tree(path)
        finally:
            os.close(handle)


def temp_name() -> str:
    """A fresh name for a temporary file or folder; `sweep` knows such names and no others."""
    return f"{TEMP_PREFIX}{secrets.token_hex(8)}"


def _owned_file(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / temp_name()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if _own(handle):
            return path, handle


def _owned_folder(parent: Path) -> tuple[Path, int]:
    while True:
        path = parent / temp_name()
        path.mkdir(mode=0o700)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # swept between the two lines: take another name
            continue
        if _own(handle):
            return path, handle


def _own(handle: int) -> bool:
    """Lock a fresh temporary; false (and closed) when a sweep got it between its creation and the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        owned = os.fstat(handle).st_nlink > 0
    except BaseException:
        os.close(handle)
        raise
    if not owned:
        os.close(handle)
    return owned


def sweep(folder: Path) -> tuple[str, ...]:
    """Remove the temporaries in `folder` whose owner is gone; the removed names, sorted. A missing folder has none.

    Raises a coded `FarmError` when something that nobody owns cannot be removed.
    """
    with coded("abandoned temporary files could not be removed", folder):
        try:
            names = sorted(path.name for path in folder.iterdir() if _TEMP_NAME.fullmatch(path.name))
        except FileNotFoundError:
            return ()
        return tuple(name for name in names if _sweep_one(folder / name))


def _sweep_one(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:  # finished, or swept by another process
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    except BlockingIOError:  # its owner lives
        return False
    finally:
        os.close(handle)
    return True


def is_owned(path: Path) -> bool:
    """Whether a temporary file or folder is there and its owner lives; false where that cannot be found out."""
    return _is_kept_from(fcntl.LOCK_SH, path, os.O_NONBLOCK)


@contextlib.contextmanager
def using(*folders: Path) -> Iterator[None]:
    """Keep folders whole for the time of the block, whatever becomes of their names.

    Raises `OSError` as the system does when one is not there.
    """
    with contextlib.ExitStack() as held:
        for folder in folders:
            held.callback(os.close, _hold(folder))
        yield


def _hold(folder: Path) -> int:
    while True:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)  # waits for a `discard` that has begun
            if os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another one has its name now


def is_used(folder: Path) -> bool:
    """Whether somebody is `using` a folder, or makes it; false where that cannot be found out."""
    return _is_kept_from(fcntl.LOCK_EX, folder, os.O_DIRECTORY)


def _is_kept_from(lock: int, path: Path, flags: int) -> bool:
    """Whether somebody's lock on a path keeps this kind out; false where that cannot be found out."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags)
    except OSError:
        return False
    try:
        fcntl.flock(handle, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def replace(new: Path, place: Path) -> None:
    """Give a folder the name `place` beside it, at which there is a folder all the time.

    What had the name goes, or where somebody uses it is left to `sweep`. Raises `OSError` as the system does.
    """
    if not place.exists() and not place.is_symlink():
        new.rename(place)
        return
    if _exchange(new, place):
        _set_aside(new)
    else:  # a file system that cannot: for a moment there is none
        aside = place.with_name(temp_name())
        place.rename(aside)
        new.rename(place)
        _set_aside(aside)


def discard(folder: Path) -> bool:
    """Remove a folder that nobody uses; false where somebody does. Raises `OSError` as the system does."""
    if is_used(folder):
        return False
    return _set_aside(folder)


def _set_aside(folder: Path) -> bool:
    """Take a folder's name away, so that nobody new comes to use it, and remove it if nobody does."""
    if folder.is_symlink():
        folder.unlink()
        return True
    aside = folder.with_name(temp_name())
    folder.rename(aside)
    return _sweep_one(aside)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names at once (renameat2(2)); false where the system or the file system cannot."""
    at, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    if call(at, os.fsencode(one), at, os.fsencode(other), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number), str(other))


def last_line(log: Path) -> str:
    """The last line of a log that says something, cut to 400 characters; empty when there is none to be read."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip()[:400] for line in reversed(lines) if line.strip()), "")
    return ""


def remove_tree(path: Path) -> None:
    """Remove a folder and all it holds, also where a folder inside lacks permissions; a missing one is fine.

    A link is removed itself, never what it leads to.

    Works at any depth, where recursion, open folders and the lengths of paths would end: what lies deeper is moved up.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink():
            path.unlink()
            return
        path.chmod(0o700)
        while entries := _entries(path):
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _dissolve(Path(entry.path), path)
                else:
                    Path(entry.path).unlink()
        path.rmdir()


def _dissolve(folder: Path, top: Path) -> None:
    """Remove a folder inside `top`; the folders that it holds move up into `top`."""
    folder.chmod(0o700)
    for entry in _entries(folder):
        inner = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            inner.chmod(0o700)  # else it may not be moved
            inner.rename(top / temp_name())
        else:
            inner.unlink()
    folder.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


@contextlib.contextmanager
def locked(folder: Path, *, timeout_s: float = -1) -> Iterator[None]:
    """Hold the lock of a folder (`<folder>.lock` beside it) against other processes and threads; -1 waits for ever.

    Raises `FarmError` LOCK_TIMEOUT when another holds it longer than `timeout_s` seconds.
    """
    path = folder.with_name(folder.name + ".lock")
    lock = filelock.FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=timeout_s)
    except filelock.Timeout as reason:  # before OSError, which it is
        raise FarmError(
            Code.LOCK_TIMEOUT,
            f"{folder} is in use",
            f"another process held its lock for more than {timeout_s:g} seconds",
            "Wait for it to finish, then run the command again.",
            detail={"file": str(path)},
        ) from reason
    except OSError as reason:
        raise error_of(reason, "a lock could not be taken", path) from reason
    try:
        yield
    finally:
        lock.release()
