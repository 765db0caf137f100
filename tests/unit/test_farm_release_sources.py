"""A release names its source: what is edited, added or hidden from git is refused, whatever git was set to believe."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from farm.release import commit, sources
from kernelfarm.errors import Code, FarmError


def checkout(folder: Path) -> Path:
    """A git checkout with a room in it."""
    (folder / "farm").mkdir(parents=True)
    (folder / "farm/a.py").write_text("a = 1\n")
    (folder / "README.md").write_text("text\n")
    (folder / ".gitignore").write_text("/build/\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


def test_a_clean_checkout_is_its_commit(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "tree")
    (folder / "build").mkdir()
    (folder / "build/out").write_text("made")
    (folder / "notes.txt").write_text("of a user")

    found = sources.current(folder)

    assert found.kind == "git"
    assert len(found.name) == 40


def test_what_python_keeps_beside_the_sources_is_no_change(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "tree")
    for level in (0, 1, 2):
        py_compile.compile(str(folder / "farm/a.py"), optimize=level)

    assert sources.current(folder).kind == "git"


def test_byte_code_that_python_does_not_take_is_no_change(tmp_path: Path) -> None:
    """It is left from a source of another time or size, or from another Python."""
    folder = checkout(tmp_path / "tree")
    path = folder / "farm/a.py"
    committed = path.read_bytes()
    path.write_text("a = 'of another branch'\n")
    py_compile.compile(str(path))
    path.write_bytes(committed)
    (folder / "farm/__pycache__/a.cpython-39.pyc").write_bytes(b"of another Python")
    (folder / "farm/__pycache__/a.cpython-311.opt-1.pyc").write_bytes(b"of another magic number")

    assert sources.current(folder).kind == "git"


@pytest.mark.parametrize("how", ["time and size", "unchecked", "half", "optimised", "optimised more than there is"])
def test_byte_code_that_runs_in_place_of_its_source_is_refused(tmp_path: Path, how: str) -> None:
    folder = checkout(tmp_path / "tree")
    path = folder / "farm/a.py"
    committed, before = path.read_bytes(), path.stat()
    path.write_text("a = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    mode = PycInvalidationMode.UNCHECKED_HASH if how == "unchecked" else PycInvalidationMode.TIMESTAMP
    level = {"optimised": 2, "optimised more than there is": 3}.get(how, 0)
    cached = Path(importlib.util.cache_from_source(path, optimization=level or ""))
    py_compile.compile(str(path), cfile=str(cached), invalidation_mode=mode, optimize=min(level, 2))
    path.write_bytes(committed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    if how == "half":
        cached.write_bytes(cached.read_bytes()[:30])
    else:
        flags = ["-S", *["-O"] * level]
        argv = [sys.executable, *flags, "-c", "import farm.a; print(farm.a.a)"]
        assert subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, check=True).stdout == b"2\n"

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.code is Code.SOURCE_DIRTY
    assert caught.value.detail["files"] == [cached.relative_to(folder).as_posix()]
    assert "Remove it" in caught.value.next_step


@pytest.mark.parametrize("where", ["beside the source", "in the folder of the setting"])
def test_byte_code_is_looked_at_wherever_a_process_of_the_farm_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """PYTHONPYCACHEPREFIX counts for the command, and not for the isolated processes that it starts."""
    folder = checkout(tmp_path / "tree")
    place = py_compile.compile(str(folder / "farm/a.py"), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "prefix"))
    if where != "beside the source":
        place = importlib.util.cache_from_source(folder / "farm/a.py")
    py_compile.compile(str(folder / "farm/a.py"), cfile=place, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    sources.current(folder)
    Path(place).write_bytes(Path(place).read_bytes()[:30])

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.detail["files"] == [os.path.relpath(place, folder)]


def test_beside_byte_code_nothing_may_lie_where_python_keeps_it(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "tree")
    (folder / "farm/__pycache__").mkdir()
    (folder / "farm/__pycache__/rules.toml").write_text("x = 1\n")

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.detail["files"] == ["farm/__pycache__/rules.toml"]


def test_a_git_that_does_not_end_is_a_coded_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkout(tmp_path / "tree")
    monkeypatch.setattr(commit, "_GIT_S", 0.0)
    with pytest.raises(FarmError) as caught:
        sources.current(folder)
    assert caught.value.code is Code.TOOL_FAILED


@pytest.mark.parametrize("change", ["edited", "staged", "deleted", "added", "ignored", "hidden", "skipped"])
def test_changed_sources_are_refused_with_the_files(tmp_path: Path, change: str) -> None:
    folder = checkout(tmp_path / "tree")
    path = folder / "farm/a.py"
    if change in ("hidden", "skipped"):
        flag = "--assume-unchanged" if change == "hidden" else "--skip-worktree"
        subprocess.run(["git", "-C", str(folder), "update-index", flag, "farm/a.py"], check=True)
    if change == "deleted":
        path.unlink()
    elif change in ("added", "ignored"):
        (folder / "farm/b.py").write_text("b = 1\n")
        (folder / ".git/info/exclude").write_text("b.py\n" if change == "ignored" else "")
    else:
        path.write_text("a = 2\n")
    if change == "staged":
        subprocess.run(["git", "-C", str(folder), "add", "."], check=True)

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.code is Code.SOURCE_DIRTY
    assert caught.value.detail["files"] == ["farm/b.py" if change in ("added", "ignored") else "farm/a.py"]


def test_sources_that_nobody_can_find_again_are_refused(tmp_path: Path) -> None:
    (tmp_path / "farm").mkdir()
    with pytest.raises(FarmError) as caught:
        sources.current(tmp_path)
    assert caught.value.code is Code.SOURCE_DIRTY


OLD, NEW = "a = 1\n", "a = 2\n"


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *settings, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def program(folder: Path, name: str, says: str) -> Path:
    """A program that leaves a mark where it was run."""
    path = folder.parent / name
    path.write_text(f"#!/bin/sh\ntouch {folder.parent / 'was-run'}\n{says}\n")
    path.chmod(0o755)
    return path


def another_work_tree(folder: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copytree(folder / "farm", folder.parent / "clean/farm")
    for name in ("README.md", ".gitignore"):
        shutil.copy(folder / name, folder.parent / "clean")
    git(folder, "config", "core.worktree", str(folder.parent / "clean"))
    (folder / "farm/a.py").write_text(NEW)


def times_and_sizes(folder: Path, _: pytest.MonkeyPatch) -> None:
    for name, value in (("core.trustctime", "false"), ("core.checkStat", "minimal")):
        git(folder, "config", name, value)
    path = folder / "farm/a.py"
    os.utime(path, (1, 1))
    git(folder, "update-index", "--refresh")
    path.write_text(NEW)
    os.utime(path, (1, 1))


def modes(folder: Path, _: pytest.MonkeyPatch) -> None:
    git(folder, "config", "core.fileMode", "false")
    (folder / "farm/a.py").chmod(0o755)


def a_filter(folder: Path, _: pytest.MonkeyPatch) -> None:
    git(folder, "config", "filter.hide.clean", str(program(folder, "clean", f"printf '{OLD.strip()}\\n'")))
    (folder / ".git/info/attributes").write_text("*.py filter=hide\n")
    (folder / "farm/a.py").write_text(NEW)


def line_ends(folder: Path, _: pytest.MonkeyPatch) -> None:
    git(folder, "config", "core.autocrlf", "input")
    (folder / "farm/a.py").write_text("a = 1\r\n", newline="")


def a_replaced_object(folder: Path, _: pytest.MonkeyPatch) -> None:
    before = git(folder, "rev-parse", "HEAD")
    (folder / "farm/a.py").write_text(NEW)
    git(folder, "commit", "-qam", "y")
    after = git(folder, "rev-parse", "HEAD")
    git(folder, "update-ref", "HEAD", before)
    git(folder, "replace", before, after)


def the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "farm/a.py").write_text(NEW)
    other = checkout(folder.parent / "other")
    (other / "farm/a.py").write_text(NEW)
    git(other, "commit", "-qam", "y")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))


def a_monitor(folder: Path, _: pytest.MonkeyPatch) -> None:
    git(folder, "config", "core.fsmonitor", str(program(folder, "monitor", "printf 'x\\0'")))
    git(folder, "update-index", "--fsmonitor")
    git(folder, "status")
    git(folder, "update-index", "--fsmonitor-valid", "farm/a.py")
    (folder / "farm/a.py").write_text(NEW)
    (folder.parent / "was-run").unlink()


def excludes_of_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "excludes").write_text("b.py\n")
    (folder.parent / "config").write_text(f"[core]\nexcludesFile = {folder.parent / 'excludes'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder.parent / "config"))
    (folder / "farm/b.py").write_text(NEW)


def a_submodule(folder: Path, _: pytest.MonkeyPatch) -> None:
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{git(folder, 'rev-parse', 'HEAD')},farm/b")
    git(folder, "commit", "-qm", "y")
    git(folder, "config", "submodule.farm/b.ignore", "all")
    (folder / "farm/b").mkdir()
    (folder / "farm/b/__init__.py").write_text(NEW)


def a_linked_folder(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere/__init__.py").write_text(NEW)
    (folder / "farm/b").symlink_to(folder.parent / "elsewhere")


def a_linked_room(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "farm").rename(folder.parent / "elsewhere")
    (folder / "farm").symlink_to(folder.parent / "elsewhere")
    (folder.parent / "elsewhere/b.py").write_text(NEW)


def a_file_in_a_folder_s_place(folder: Path, _: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder / "farm")
    (folder / "farm").write_text(NEW)


HIDING = (
    another_work_tree,
    times_and_sizes,
    modes,
    a_filter,
    line_ends,
    a_replaced_object,
    the_environment,
    a_monitor,
    excludes_of_the_user,
    a_submodule,
    a_linked_folder,
    a_linked_room,
    a_file_in_a_folder_s_place,
)


@pytest.mark.parametrize("hide", HIDING, ids=lambda hide: hide.__name__)
def test_nothing_that_git_was_set_to_believe_hides_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hide: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    folder = checkout(tmp_path / "tree")
    hide(folder, monkeypatch)

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.code is Code.SOURCE_DIRTY
    assert {name.split("/")[0] for name in caught.value.detail["files"]} == {"farm"}
    assert not (tmp_path / "was-run").exists()  # nor is anything run that a repository's settings name


@pytest.mark.parametrize("what", ["the tree of a room", "the tree", "the commit"])
def test_an_object_that_is_not_what_its_name_says_hides_no_change(tmp_path: Path, what: str) -> None:
    folder = checkout(tmp_path / "tree")
    names = {"the tree of a room": "HEAD:farm", "the tree": "HEAD^{tree}", "the commit": "HEAD"}
    before = git(folder, "rev-parse", names[what])
    (folder / "farm/a.py").write_text(NEW)
    git(folder, "commit", "-qam", "y")
    after = git(folder, "rev-parse", names[what])
    git(folder, "reset", "-q", "--soft", "HEAD^")
    objects = folder / ".git/objects"
    place = objects / before[:2] / before[2:]
    place.unlink()
    shutil.copyfile(objects / after[:2] / after[2:], place)

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.code is Code.TOOL_FAILED
    # git looks at some of them itself
    assert f"{before} is not what its name says" in caught.value.why or f"hash mismatch {before}" in caught.value.why


def test_a_repository_around_the_sources_is_not_theirs(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "tree")
    shutil.move(folder / ".git", tmp_path / ".git")
    (folder / ".git").mkdir()

    with pytest.raises(FarmError) as caught:
        sources.current(folder)

    assert caught.value.code is Code.TOOL_FAILED
    assert "rev-parse" in caught.value.next_step


def test_links_programs_and_sha256_are_compared_as_git_lists_them(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "farm").mkdir(parents=True)
    (folder / "farm/run").write_text("#!/bin/sh\n")
    (folder / "farm/run").chmod(0o755)
    (folder / "farm/link").symlink_to("run")
    git(folder, "init", "-q", "--object-format=sha256")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")

    assert len(sources.current(folder).name) == 64
    (folder / "farm/link").unlink()
    (folder / "farm/link").symlink_to("other")
    (folder / "farm/run").chmod(0o644)
    with pytest.raises(FarmError) as caught:
        sources.current(folder)
    assert caught.value.detail["files"] == ["farm/link", "farm/run"]


def test_a_clean_checkout_is_its_commit_whatever_git_was_set_to(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "tree")
    wanted = git(folder, "rev-parse", "HEAD")
    git(folder, "config", "filter.hide.clean", "false")
    (folder / ".git/info/attributes").write_text("*.py filter=hide\n")
    git(folder, "config", "core.worktree", "/nowhere/at/all")

    assert sources.current(folder).name == wanted


def test_a_work_tree_beside_its_repository_is_its_own_commit(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "tree")
    git(folder, "worktree", "add", "-q", "--detach", str(tmp_path / "second"))
    git(folder, "commit", "-q", "--allow-empty", "-m", "y")

    assert sources.current(tmp_path / "second").name == git(folder, "rev-parse", "HEAD~1")
    assert sources.current(folder).name == git(folder, "rev-parse", "HEAD")


def test_the_look_at_a_thousand_sources_takes_less_than_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    for number in range(1000):
        path = folder / f"farm/{number % 20}/a{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"a = {number}\n" * 1000)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")

    begun = time.process_time()
    sources.current(folder)

    assert time.process_time() - begun < 1
