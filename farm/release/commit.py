"""A git commit against the files that lie there, byte for byte: nothing of what git was set to believe counts.

`git status` believes times and sizes, flags in the index, filters, excludes, a work tree elsewhere, replaced objects,
and programs that the repository's settings name. Here git says two things alone, what HEAD is and what its tree lists,
from its objects, without the user's settings and running nobody's program. The files are hashed here, as git hashes
those to which no filter applies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kernelfarm import files
from kernelfarm.errors import Code, FarmError

_GIT_S = 60.0
_WHAT = "git could not tell the state of the farm's sources"
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "GIT_ALLOW_PROTOCOL": "none",  # a clone without all objects must not fetch them: that runs programs
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_OPTIONS = ("--no-replace-objects", "-c", "core.commitGraph=false", "-c", "core.fsmonitor=false")
_HASHES = {40: "sha1", 64: "sha256"}
"""How a repository names objects, by the length of the name."""

Entry = tuple[str, str]
"""Mode and object of a file as a tree lists it: ("100644", "3b18e5...")."""


def head(top: Path) -> str:
    """The commit that is checked out in the folder `top`. Raises `FarmError` TOOL_MISSING, TOOL_FAILED."""
    return _git(top, "rev-parse", "--verify", "HEAD^{commit}").strip()


def differing(top: Path, commit: str, present: Iterable[str]) -> set[str]:
    """Paths below `top` of which the commit says something else: of the files of its tree, and of those in `present`.

    Raises as `head`, and a coded `FarmError` of class ENVIRONMENT for a file that cannot be read.
    """
    tree = _tree(top, commit)
    with files.coded("the farm's sources could not be read", top):
        changed = {name for name, listed in tree.items() if _entry(top / name, len(listed[1])) != listed}
        return changed | (set(present) - set(tree))


def below(top: Path, rooms: Sequence[str]) -> Iterator[str]:
    """Everything but folders in these folders of `top`, by its path from there. A link to a folder counts as a file:
    Python imports through it, and what lies behind it is nobody's. Raises a coded `FarmError` as `differing`.
    """
    with files.coded("the farm's sources could not be read", top):
        yield from _below(top, rooms)


def _below(top: Path, rooms: Sequence[str]) -> Iterator[str]:
    for room in rooms:
        if (top / room).is_symlink():
            yield room
            continue
        for folder, folders, names in os.walk(top / room, onerror=_raise):
            place = Path(folder)
            links = [name for name in folders if (place / name).is_symlink()]
            yield from ((place / name).relative_to(top).as_posix() for name in (*names, *links))


def _raise(reason: OSError) -> None:
    raise reason


def _tree(top: Path, commit: str) -> dict[str, Entry]:
    """What the tree of a commit lists, by path. Submodules are listed too, and no file is like one.

    git believes that its objects are what their names say: commit and trees are hashed here again.
    """
    text = _git(top, "cat-file", "commit", commit).encode("utf-8", "surrogateescape")
    _require_object(top, "commit", text, commit)
    trees = {"": text.split(b"\n", 1)[0].removeprefix(b"tree ").decode()}
    files_of: dict[str, Entry] = {}
    content: dict[str, list[bytes]] = {"": []}
    for line in _git(top, "ls-tree", "-r", "-t", "-z", "--full-tree", commit).split("\0"):
        if line:
            said, _, path = line.partition("\t")
            mode, kind, named = said.split(" ")
            folder, _, name = path.rpartition("/")
            content.setdefault(folder, []).append(
                b"%o %s\0%s" % (int(mode, 8), name.encode("utf-8", "surrogateescape"), bytes.fromhex(named))
            )
            if kind == "tree":
                trees[path], content[path] = named, []
            else:
                files_of[path] = (mode, named)
    for path, named in trees.items():
        _require_object(top, "tree", b"".join(content[path]), named)
    return files_of


def _require_object(top: Path, kind: str, data: bytes, named: str) -> None:
    if _named(kind, data, len(named)) != named:
        advice = f"Run `git fsck` in {top}, and release from a fresh clone."
        raise FarmError(Code.TOOL_FAILED, _WHAT, f"its {kind} {named} is not what its name says", advice)


def _named(kind: str, data: bytes, digits: int) -> str:
    """The name that git gives an object."""
    head = b"%s %d\0" % (kind.encode(), len(data))
    return hashlib.new(_HASHES[digits], head + data, usedforsecurity=False).hexdigest()


def _entry(path: Path, digits: int) -> Entry | None:
    """How a tree would list what lies there; None for nothing, and for what no tree lists."""
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            mode, data = "120000", os.fsencode(path.readlink())
        elif stat.S_ISREG(found.st_mode):
            mode, data = "100755" if found.st_mode & stat.S_IXUSR else "100644", path.read_bytes()
        else:
            return None
    except (FileNotFoundError, NotADirectoryError):
        return None
    return mode, _named("blob", data, digits)


def _git(top: Path, *words: str) -> str:
    program = shutil.which("git")
    if program is None:
        advice = "Install git: the farm runs from a checkout, whose commit a release names."
        raise FarmError(Code.TOOL_MISSING, "git is not installed", next_step=advice)
    place = (f"--git-dir={top / '.git'}", f"--work-tree={top}")  # else settings, or folders above, may name others
    try:
        with files.coded("git could not be started", Path(program)):
            done = subprocess.run(
                [program, *place, *_OPTIONS, *words],
                capture_output=True,
                timeout=_GIT_S,
                cwd=top,
                env={"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT},
                check=False,
            )
    except subprocess.TimeoutExpired as reason:
        why = f"it took more than {_GIT_S:g} seconds"
        raise FarmError(Code.TOOL_FAILED, _WHAT, why, "Run the command again.", {"argv": words}) from reason
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        advice = f"See what `git {' '.join(words)}` says in {top}: the farm's sources must be a commit, whole."
        raise FarmError(Code.TOOL_FAILED, _WHAT, why, advice, {"argv": words})
    return done.stdout.decode("utf-8", "surrogateescape")
