"""What this machine saw of release logs: the signed lines of each, so that a registry cannot go back unnoticed.

`<home>/registry/<hex>.log`, one file for each repository and key. Who never looked before knows nothing: a consumer's
lock file carries the end of the log along. The lines are what a withdrawal is known from without the network, and what
a publisher puts back where a registry lost them.
"""

from __future__ import annotations

from pathlib import Path

from farm.registry import log
from farm.registry.log import ReleaseLog
from farm.registry.reference import Reference
from kernelfarm import canonical, digest, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from signing.keys import PublicKey

FOLDER = "registry"


def require_and_remember(
    home: Home, reference: Reference, public: PublicKey, repository: str, found: ReleaseLog
) -> None:
    """Remember the log of `repository` that this place shows; raises as `log.require_extends` where it lacks what was
    seen of it here before, and as `seen`.
    """
    path = _place(home.create(), reference, public)
    with files.coded("what was seen of a release log could not be kept", path):
        path.parent.mkdir(exist_ok=True)
    data = found.encode()
    with files.locked(path):
        known = _read(path)
        if not data.startswith(known):  # else what was verified before need not be again
            log.require_extends(found, _decode(known, path, public, repository).head, reference.place)
        if data != known:
            files.atomic_write(path, data)


def seen(home: Home, reference: Reference, public: PublicKey, repository: str) -> ReleaseLog:
    """What was seen of the log of `repository`, at this place; an empty log where nothing was. Nothing is written.

    Raises `FarmError` LOG_INVALID where what was kept of it is damaged.
    """
    path = _place(home, reference, public)
    return _decode(_read(path), path, public, repository)


def _place(home: Home, reference: Reference, public: PublicKey) -> Path:
    name = canonical.digest_of({"place": reference.place, "key": public.keyid})
    return home.root / FOLDER / f"{digest.hex_of(name)}.log"


def _read(path: Path) -> bytes:
    with files.coded("what was seen of a release log could not be read", path):
        return path.read_bytes() if path.exists() else b""


def _decode(known: bytes, path: Path, public: PublicKey, repository: str) -> ReleaseLog:
    try:
        return log.decode(known, public, repository)
    except FarmError as reason:
        what = "what this machine remembers of a release log is damaged"
        advice = "Remove the file: what it remembered is lost, and a lock file still knows what it saw."
        raise FarmError(Code.LOG_INVALID, what, f"{path}: {reason.why}", advice, {"file": str(path)}) from reason
