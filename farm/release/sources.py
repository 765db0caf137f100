"""Whether the farm that releases is one that somebody can find again: a commit without changes, or an installed wheel.

A release names its source. What was edited since the last commit, or inside site-packages, is nobody's source.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from farm import actions
from farm.actions import COMPILER_ROOMS, room
from kernelfarm import digest, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RecipeInputs
from signing.release import Source
from toolchains import runtime_build

ROOMS = ("containers", "farm", "kernelc", "kernelfarm", "runtime", "sbom", "signing", "toolchains")
_DISTRIBUTION = "kernel-farm"
_HIDDEN = ("h", "S", "s")
"""How `git ls-files -v` marks files whose changes `git status` was told not to look for."""
_GIT_S = 60.0
_SHOWN = 5


def current(root: Path | None = None) -> Source:
    """The source of this farm, whose rooms lie in the folder `root`.

    Raises `FarmError` SOURCE_DIRTY with the files that were changed; TOOL_MISSING without git where it is needed.
    """
    top = (root or room("kernelfarm").parent).resolve()
    return _checkout(top) if (top / ".git").exists() else _installed(top)


def require_same(recipe: RecipeInputs) -> None:
    """Raise `FarmError` SOURCE_DIRTY unless this farm's sources are those that compiled: its commit must be theirs."""
    now = (actions.compiler_source({name: room(name) for name in COMPILER_ROOMS}), runtime_build.source_digest())
    if now != (recipe.compiler_source, recipe.runtime_source):
        why = "the payloads were compiled with others"
        raise FarmError(Code.SOURCE_DIRTY, "the farm's sources changed since the build", why, "Build again.")


def _checkout(top: Path) -> Source:
    commit = _git(top, "rev-parse", "HEAD").strip()
    changed = {line[3:] for line in _git(top, "status", "--porcelain=v1", "-z", "-uno").split("\0") if line}
    rooms = [name for name in ROOMS if (top / name).is_dir()]
    others = _git(top, "ls-files", "-z", "--others", "-x", "__pycache__/", "--", *rooms)  # ignored ones are run too
    changed |= set(others.split("\0"))
    flagged = _git(top, "ls-files", "-z", "-v").split("\0")
    changed |= {line[2:] for line in flagged if line[:1] in _HIDDEN}
    _require_unchanged(
        changed - {""}, f"since the commit {commit[:12]}", "Commit or undo the changes, then build again."
    )
    return Source("git", commit)


def _git(top: Path, *words: str) -> str:
    program = shutil.which("git")
    if program is None:
        advice = "Install git: the farm runs from a checkout, whose commit a release names."
        raise FarmError(Code.TOOL_MISSING, "git is not installed", next_step=advice)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        with files.coded("git could not be started", Path(program)):
            done = subprocess.run(
                [program, "-C", str(top), "-c", "core.fsmonitor=false", *words],
                capture_output=True,
                timeout=_GIT_S,
                env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8"},
                check=False,
            )
    except subprocess.TimeoutExpired as reason:
        what, why = "git could not tell the state of the farm's sources", f"it took more than {_GIT_S:g} seconds"
        raise FarmError(Code.TOOL_FAILED, what, why, "Run the command again.", {"argv": words}) from reason
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise FarmError(
            Code.TOOL_FAILED, "git could not tell the state of the farm's sources", why, detail={"argv": words}
        )
    return done.stdout.decode("utf-8", "surrogateescape")


def _installed(top: Path) -> Source:
    """The wheel's RECORD must be what lies on disk, and nothing more may lie in the rooms."""
    try:
        found = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError as reason:
        raise _nobodys(top, "it is neither a git checkout nor an installed distribution") from reason
    listed = {path.as_posix(): path.hash for path in found.files or () if path.parts[0] in ROOMS}
    if not listed:
        raise _nobodys(top, "its installation lists no files")
    present = {
        path.relative_to(top).as_posix()
        for name in ROOMS
        for path in sorted((top / name).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    sums = {name: hash_ for name, hash_ in listed.items() if "__pycache__" not in name}
    changed = present ^ set(sums)
    for name in sorted(present & set(sums)):
        kept = sums[name]
        if kept is None or kept.mode != "sha256" or _sum(top / name) != kept.value:
            changed.add(name)
    _require_unchanged(changed, f"in the installation of {_DISTRIBUTION} {found.version}", "Install it again.")
    record = digest.of_bytes((found.read_text("RECORD") or "").encode())
    return Source("distribution", f"{_DISTRIBUTION} {found.version} {record}")


def _sum(path: Path) -> str:
    raw = binascii.unhexlify(digest.hex_of(digest.of_file(path)))
    assert len(raw) == hashlib.sha256().digest_size
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _require_unchanged(changed: set[str], where: str, advice: str) -> None:
    if changed:
        names = sorted(name.encode("utf-8", "backslashreplace").decode() for name in changed)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        why = f"changed {where}: {', '.join(names[:_SHOWN])}{more}"
        what = "the farm's sources are not those of a commit"
        raise FarmError(Code.SOURCE_DIRTY, what, why, advice, {"files": names[:100]})


def _nobodys(top: Path, why: str) -> FarmError:
    advice = "Run the farm from a git checkout, or install its wheel."
    return FarmError(Code.SOURCE_DIRTY, f"nobody can find the sources in {top} again", why, advice)
