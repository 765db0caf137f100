"""What this machine saw of release logs: the signed lines of each, so that a registry cannot go back unnoticed.

`<home>/registry/<hex>.log` holds the lines of a log: one file for each log, by the name that its entries bear, and key.
A registry may be reached by several names and a mirror is a copy: whoever shows a log is held against what was seen of
it anywhere. `<hex>.place` says which log a place, HOST/REPOSITORY, showed: one that shows none, or another, is noticed.
Who never looked before knows nothing: a consumer's lock file carries the end of the log along. The lines are what a
withdrawal is known from without the network, and what a publisher puts back where a registry lost them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from farm.registry import log
from farm.registry.log import ReleaseLog
from farm.registry.reference import Reference
from kernelfarm import canonical, digest, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from signing import dsse
from signing.keys import PublicKey
from signing.release import LogEntry, is_log

FOLDER = "registry"


def require_and_remember(
    home: Home, reference: Reference, public: PublicKey, repository: str, found: ReleaseLog
) -> None:
    """Remember the log of `repository` that this place shows; raises as `log.require_extends` where it lacks what was
    seen here before, of this place or of this log, and as `seen`.
    """
    folder = home.create().root / FOLDER
    with files.coded("what was seen of a release log could not be kept", folder):
        folder.mkdir(exist_ok=True)
    with files.locked(folder / "seen"):
        before = _log_at(home, reference, public)
        data = found.encode()
        for name in sorted({before, found.name} - {""}):
            path = _lines(home, public, name)
            known = _read(path)
            if not data.startswith(known):  # else what was verified before need not be again
                log.require_extends(found, _decode(known, path, public, repository).head, reference.place)
        if found.name:
            if data != _read(path := _lines(home, public, found.name)):
                files.atomic_write(path, data)
            if before != found.name:
                files.atomic_write(_place(home, reference, public), found.name.encode())


def seen(home: Home, reference: Reference, public: PublicKey, repository: str | None) -> ReleaseLog:
    """What was seen of the log that this place showed; an empty log where nothing was. Nothing is written.

    `repository` is whose it must be; None for anybody's.

    Raises `FarmError` LOG_INVALID where what was kept of it is damaged.
    """
    name = _log_at(home, reference, public)
    return _of(home, name, public, repository) if name else ReleaseLog()


def seen_of(home: Home, name: str, public: PublicKey) -> ReleaseLog:
    """What was seen of the log of this name, wherever it was; else as `seen`."""
    return _of(home, name, public, None)


def every(home: Home, public: PublicKey) -> Iterator[ReleaseLog]:
    """What was seen of each log of the key, by whatever name and wherever; else as `seen`."""
    for path in sorted((home.root / FOLDER).glob("*.log")):
        known = _read(path)
        try:
            name = _name_in(known)
        except FarmError as reason:
            raise _damaged(path, reason.why) from reason
        if path == _lines(home, public, name):  # else another key's
            yield _decode(known, path, public, None)


def _name_in(known: bytes) -> str:
    """The name of the log that the first of its lines bears; its signature is not checked."""
    _keyid, statement = dsse.read_unverified(known.partition(b"\n")[0], "its first line")
    return LogEntry.from_statement(statement, "its first line").log


def _of(home: Home, name: str, public: PublicKey, repository: str | None) -> ReleaseLog:
    path = _lines(home, public, name)
    return _decode(_read(path), path, public, repository)


def _lines(home: Home, public: PublicKey, name: str) -> Path:
    return _file(home, {"log": name, "key": public.keyid}, "log")


def _place(home: Home, reference: Reference, public: PublicKey) -> Path:
    return _file(home, {"place": reference.place, "key": public.keyid}, "place")


def _file(home: Home, what: dict[str, str], ending: str) -> Path:
    return home.root / FOLDER / f"{digest.hex_of(canonical.digest_of(what))}.{ending}"


def _log_at(home: Home, reference: Reference, public: PublicKey) -> str:
    """The name of the log that a place showed; empty where none was seen there."""
    path = _place(home, reference, public)
    name = _read(path).decode("utf-8", "replace")
    if name and not is_log(name):
        raise _damaged(path, "it names no log")
    return name


def _read(path: Path) -> bytes:
    with files.coded("what was seen of a release log could not be read", path):
        return path.read_bytes() if path.exists() else b""


def _decode(known: bytes, path: Path, public: PublicKey, repository: str | None) -> ReleaseLog:
    try:
        return log.decode(known, public, repository)
    except FarmError as reason:
        raise _damaged(path, reason.why) from reason


def _damaged(path: Path, why: str) -> FarmError:
    what = "what this machine remembers of a release log is damaged"
    advice = "Remove the file: what it remembered is lost, and a lock file still knows what it saw."
    return FarmError(Code.LOG_INVALID, what, f"{path}: {why}", advice, {"file": str(path)})
