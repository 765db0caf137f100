"""Whether the farm that releases is one that somebody can find again: a commit without changes, or an installed wheel.

A release names its source. What was edited since the last commit, or inside site-packages, is nobody's source.
"""

from __future__ import annotations

import base64
import binascii
import glob
import hashlib
import marshal
import os
import struct
from collections.abc import Iterator
from importlib import metadata
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path, PurePath

from farm import actions
from farm.actions import COMPILER_ROOMS, room
from farm.release import commit
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RecipeInputs
from signing.release import Source
from toolchains import runtime_build

ROOMS = ("containers", "farm", "kernelc", "kernelfarm", "runtime", "sbom", "signing", "toolchains")
_DISTRIBUTION = "kernel-farm"
_SHOWN = 5
_BYTECODE = "**/__pycache__/*.pyc"
_HEADER = struct.Struct("<4sIII")
"""What a .pyc begins with: magic number, flags, then time and size of its source where the flags are 0 (PEP 552)."""


def current(root: Path | None = None) -> Source:
    """The source of this farm, whose rooms lie in the folder `root`.

    Raises `FarmError` SOURCE_DIRTY with the files that were changed, or whose byte code Python would run though it is
    another's; TOOL_MISSING without git where it is needed.
    """
    top = (root or room("kernelfarm").parent).resolve()
    found = _checkout(top) if (top / ".git").exists() else _installed(top)
    _require_own_bytecode(top)
    return found


def require_same(recipe: RecipeInputs) -> None:
    """Raise `FarmError` SOURCE_DIRTY unless this farm's sources are those that compiled: its commit must be theirs."""
    now = (actions.compiler_source({name: room(name) for name in COMPILER_ROOMS}), runtime_build.source_digest())
    if now != (recipe.compiler_source, recipe.runtime_source):
        why = "the payloads were compiled with others"
        raise FarmError(Code.SOURCE_DIRTY, "the farm's sources changed since the build", why, "Build again.")


def _checkout(top: Path) -> Source:
    found = commit.head(top)
    changed = commit.differing(top, found, _present(top))
    _require_unchanged(changed, f"since the commit {found[:12]}", "Commit or undo the changes, then build again.")
    return Source("git", found)


def _present(top: Path) -> set[str]:
    """What lies in the rooms, by path, but byte code, which is looked at by itself."""
    rooms = [name for name in ROOMS if (top / name).is_dir()]
    return {name for name in commit.below(top, rooms) if not PurePath(name).match(_BYTECODE)}


def _installed(top: Path) -> Source:
    """The wheel's RECORD must be what lies on disk, and nothing more may lie in the rooms."""
    try:
        found = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError as reason:
        raise _nobodys(top, "it is neither a git checkout nor an installed distribution") from reason
    listed = {path.as_posix(): path.hash for path in found.files or () if path.parts[0] in ROOMS}
    if not listed:
        raise _nobodys(top, "its installation lists no files")
    present = _present(top)
    sums = {name: hash_ for name, hash_ in listed.items() if not PurePath(name).match(_BYTECODE)}
    changed = present ^ set(sums)
    for name in sorted(present & set(sums)):
        kept = sums[name]
        if kept is None or kept.mode != "sha256" or _sum(top / name) != kept.value:
            changed.add(name)
    _require_unchanged(changed, f"in the installation of {_DISTRIBUTION} {found.version}", "Install it again.")
    record = digest.of_bytes((found.read_text("RECORD") or "").encode())
    return Source("distribution", f"{_DISTRIBUTION} {found.version} {record}")


def _require_own_bytecode(top: Path) -> None:
    """Raise `FarmError` SOURCE_DIRTY for byte code that Python would run and that is not its source's.

    Python believes a .pyc whose source has the recorded time and size, whatever the source says.
    """
    foreign = [
        cached
        for name in ROOMS
        for source in sorted((top / name).rglob("*.py"))
        for cached, level in _cached(source)
        if not _is_of(cached, source, level)
    ]
    if foreign:
        names = [os.path.relpath(path, top) for path in foreign]
        what = "the farm's byte code is not that of its sources"
        why = f"Python would run {_few(names)} in place of the source"
        advice = "Remove it, then build again: what was built may come from it."
        raise FarmError(Code.SOURCE_DIRTY, what, why, advice, {"files": names[:100]})


def _cached(source: Path) -> Iterator[tuple[Path, int]]:
    """Byte code of a source with its level of optimisation: here, and for processes that take no settings (-I).

    Python names it by what -O says, whatever number that is, and compiles no higher than by level 2.
    """
    plain = Path(cache_from_source(source, optimization=""))
    for folder in sorted({plain.parent, source.parent / "__pycache__"}):
        for path in sorted(folder.glob(f"{glob.escape(plain.stem)}*.pyc")):
            word = path.name.removeprefix(plain.stem).removesuffix(".pyc").removeprefix(".opt-")
            if path.is_file() and (not word or word.isdigit()):
                yield path, min(int(word or 0), 2)


def _is_of(cached: Path, source: Path, level: int) -> bool:
    """Whether byte code is that of its source, or is none that Python takes: then it is compiled again."""
    data, text = cached.read_bytes(), source.read_bytes()
    if len(data) < _HEADER.size or not data.startswith(MAGIC_NUMBER):
        return True
    _magic, flags, seconds, size = _HEADER.unpack_from(data)
    found = source.stat()
    if flags == 0 and (seconds, size) != (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF):
        return True
    try:
        kept = marshal.loads(data[_HEADER.size :])
        made = compile(text, str(source), "exec", dont_inherit=True, optimize=level)
    except (ValueError, TypeError, EOFError, SyntaxError):
        return False
    return type(kept) is type(made) and kept == made


def _sum(path: Path) -> str:
    raw = binascii.unhexlify(digest.hex_of(digest.of_file(path)))
    assert len(raw) == hashlib.sha256().digest_size
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _require_unchanged(changed: set[str], where: str, advice: str) -> None:
    if changed:
        names = sorted(name.encode("utf-8", "backslashreplace").decode() for name in changed)
        why = f"changed {where}: {_few(names)}"
        what = "the farm's sources are not those of a commit"
        raise FarmError(Code.SOURCE_DIRTY, what, why, advice, {"files": names[:100]})


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _nobodys(top: Path, why: str) -> FarmError:
    advice = "Run the farm from a git checkout, or install its wheel."
    return FarmError(Code.SOURCE_DIRTY, f"nobody can find the sources in {top} again", why, advice)
