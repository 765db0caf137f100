"""Files whole or not at all; temporaries of the dead are swept, of the living not; folder locks; where state lies."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernelfarm import files, paths
from kernelfarm.errors import Code, FarmError, Status

REPOSITORY = Path(__file__).parents[2]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def holder(folder: Path, kind: str) -> subprocess.Popen[str]:
    """A process that made a temporary in `folder`, said so, and waits."""
    script = (
        f"import sys, time; from pathlib import Path; from kernelfarm import files\n"
        f"with files.{kind}(Path(sys.argv[1])) as made:\n"
        f"    print('made', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "made\n"
    return process


def test_a_write_replaces_the_whole_file_with_the_mode_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a longer old content")
    files.atomic_write(path, b"new", mode=0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, Code.DISK_FULL),
        (errno.EDQUOT, Code.DISK_FULL),
        (errno.EROFS, Code.READ_ONLY),
        (errno.EACCES, Code.PERMISSION),
        (errno.EPERM, Code.PERMISSION),
        (errno.EIO, Code.FILE_IO),
        (errno.EFBIG, Code.FILE_IO),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: Code
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def refuse(_handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(FarmError) as caught:
        files.atomic_write(path, b"new")
    assert (caught.value.code, caught.value.status) == (code, Status.ENVIRONMENT)
    assert caught.value.detail == {"file": str(path)}
    assert (names(tmp_path), path.read_bytes()) == (["file"], b"old")


def test_a_folder_that_is_missing_is_an_environment_error(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        files.atomic_write(tmp_path / "none" / "file", b"")
    assert caught.value.code is Code.FILE_MISSING


def test_a_temporary_folder_goes_with_all_it_holds(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), files.temp_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        inner = folder / "inner"
        inner.mkdir()
        (inner / "file").write_bytes(b"x")
        inner.chmod(0o500)
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_a_temporary_folder_that_was_renamed_stays(tmp_path: Path) -> None:
    with files.temp_folder(tmp_path) as folder:
        (folder / "file").write_bytes(b"x")
        folder.rename(tmp_path / "final")
    assert names(tmp_path) == ["final"]
    assert (tmp_path / "final" / "file").read_bytes() == b"x"


@pytest.mark.parametrize("kind", ["temp_file", "temp_folder"])
def test_a_killed_owners_temporary_is_swept_and_a_living_ones_is_not(tmp_path: Path, kind: str) -> None:
    dead, living = holder(tmp_path, kind), holder(tmp_path, kind)
    before = names(tmp_path)
    try:
        dead.kill()
        dead.wait()
        swept = files.sweep(tmp_path)
        assert len(before) == 2
        assert len(swept) == 1
        assert names(tmp_path) == [name for name in before if name not in swept]
        assert files.sweep(tmp_path) == ()
    finally:
        living.kill()
        living.wait()
    assert sorted([*swept, *files.sweep(tmp_path)]) == before
    assert names(tmp_path) == []


def test_a_sweep_spares_this_process_own_temporaries_and_all_other_names(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"")
    with files.temp_file(tmp_path) as (_stream, path), files.temp_folder(tmp_path) as folder:
        assert files.sweep(tmp_path) == ()
        assert names(tmp_path) == sorted(["kept", path.name, folder.name])
    assert names(tmp_path) == ["kept"]


def test_a_sweep_of_a_missing_folder_finds_nothing(tmp_path: Path) -> None:
    assert files.sweep(tmp_path / "none") == ()


def test_a_temporary_taken_by_a_sweep_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[str] = []
    real = files._own

    def sweep_first(handle: int) -> bool:
        if len(swept) < 2:
            swept.extend(files.sweep(tmp_path))
        return real(handle)

    monkeypatch.setattr(files, "_own", sweep_first)
    with files.temp_file(tmp_path) as (_stream, path):
        assert len(swept) == 2
        assert names(tmp_path) == [path.name]
    swept.clear()
    with files.temp_folder(tmp_path) as folder:
        assert len(swept) == 2
        assert names(tmp_path) == [folder.name]


def test_a_folders_lock_is_held_by_one_thread_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    codes: list[Code] = []

    def second() -> None:
        try:
            with files.locked(folder, timeout_s=0.05):
                pass
        except FarmError as error:
            codes.append(error.code)

    with files.locked(folder):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert codes == [Code.LOCK_TIMEOUT]
    second()
    assert codes == [Code.LOCK_TIMEOUT]


def test_a_folders_lock_dies_with_its_process(tmp_path: Path) -> None:
    process = holder(tmp_path / "folder", "locked")
    with pytest.raises(FarmError) as caught, files.locked(tmp_path / "folder", timeout_s=0.05):
        pass
    assert caught.value.code is Code.LOCK_TIMEOUT
    process.send_signal(signal.SIGKILL)
    process.wait()
    with files.locked(tmp_path / "folder", timeout_s=5):
        pass


def test_home_is_farm_home_else_the_xdg_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg/state")
    monkeypatch.chdir(tmp_path)
    assert paths.home({}).root == Path("/xdg/state/kernel-farm")
    assert paths.home({"FARM_HOME": ""}).root == Path("/xdg/state/kernel-farm")
    assert paths.home({"FARM_HOME": "build/home"}).root == tmp_path / "build/home"


def test_a_home_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    home = paths.home({"FARM_HOME": str(tmp_path / "deep" / "home")}).create()
    assert names(home.root) == ["cache", "keys", "logs", "run", "store"]
    assert home.create() == home
    assert [path.stat().st_mode & 0o777 for path in (home.root, home.keys, home.run)] == [0o700] * 3
    assert home.ledger == tmp_path / "deep" / "home" / "ledger.sqlite3"


def test_a_home_that_cannot_be_made_is_an_environment_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FarmError) as caught:
        paths.home({"FARM_HOME": str(tmp_path / "file" / "home")}).create()
    assert caught.value.status is Status.ENVIRONMENT


@pytest.mark.parametrize("length", [3, 150])
def test_a_socket_works_however_long_its_path_is(tmp_path: Path, length: int) -> None:
    folder = tmp_path / ("d" * length)
    folder.mkdir()
    path = folder / "signer.sock"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with paths.socket_address(path) as address:
            assert len(os.fsencode(address)) <= paths.SOCKET_LIMIT
            server.bind(address)
        server.listen()
        assert path.is_socket()
        with paths.socket_address(path) as address:
            client.connect(address)
        connection, _ = server.accept()
        with connection:
            client.sendall(b"hello")
            assert connection.recv(5) == b"hello"


def test_a_tree_of_any_depth_and_mode_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    handle = os.open(top, os.O_RDONLY)
    for _ in range(1500):  # deeper than recursion, and than a path may be long
        os.mkdir("d" * 20, dir_fd=handle)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=handle))
    os.close(handle)
    (top / "closed").mkdir(mode=0)
    (top / "link").symlink_to(tmp_path)
    (tmp_path / "kept").touch()
    files.remove_tree(top)
    assert names(tmp_path) == ["kept"]


def test_a_link_is_removed_itself_and_never_what_it_leads_to(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o750)
    (folder / "kept").touch()
    link = tmp_path / "link"
    link.symlink_to(folder)
    files.remove_tree(link)
    assert names(tmp_path) == ["folder"]
    assert names(folder) == ["kept"]
    assert folder.stat().st_mode & 0o777 == 0o750


def test_a_temporary_is_owned_as_long_as_its_owner_lives(tmp_path: Path) -> None:
    with files.temp_folder(tmp_path) as folder:
        assert files.is_owned(folder)
    assert not files.is_owned(folder)
    (tmp_path / "nobodys").mkdir()
    assert not files.is_owned(tmp_path / "nobodys")


def folder(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "file").write_text(text)
    return path


def test_a_folder_in_use_outlives_its_name(tmp_path: Path) -> None:
    place, other = folder(tmp_path / "place", "old"), folder(tmp_path / "other", "other")
    held = os.open(place, os.O_RDONLY)
    with files.using(place, other):
        assert not files.discard(other)
        files.replace(folder(tmp_path / "new", "new"), place)
        assert (place / "file").read_text() == "new"
        assert files.sweep(tmp_path) == ()
        assert os.listdir(held) == ["file"]  # noqa: PTH208 - a descriptor, as a mount has one
    os.close(held)
    [_old] = files.sweep(tmp_path)
    assert files.discard(other)
    assert names(tmp_path) == ["place"]


@pytest.mark.parametrize("kind", ["folder", "link", "nothing", "cannot"])
def test_a_folder_takes_the_place_of_another_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place, lent = tmp_path / "place", tmp_path / "lent"
    if kind == "link":
        place.symlink_to(folder(lent, "lent"))
    elif kind != "nothing":
        folder(place, "old")
    if kind == "cannot":
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    files.replace(folder(tmp_path / "new", "new"), place)
    assert (place / "file").read_text() == "new"
    assert not place.is_symlink()
    assert names(tmp_path) == (["lent", "place"] if kind == "link" else ["place"])


def test_there_is_a_folder_at_the_place_all_the_time(tmp_path: Path) -> None:
    place = folder(tmp_path / "place", "0")
    missed, stop = [], threading.Event()

    def look() -> None:
        while not stop.is_set():
            if not (place / "file").exists():
                missed.append(1)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(200):
        files.replace(folder(tmp_path / "new", str(number)), place)
    stop.set()
    thread.join()
    assert missed == []


def test_who_comes_to_use_a_folder_that_goes_gets_its_successor_or_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), files.using(tmp_path / "none"):
        pass
    place = folder(tmp_path / "place", "old")
    seen: list[str] = []

    def work() -> None:
        for _ in range(200):
            with files.using(place):
                seen.append((place / "file").read_text())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(50):
        files.replace(folder(tmp_path / "new", f"new {number}"), place)
    for thread in threads:
        thread.join()
    assert len(seen) == 600
    files.sweep(tmp_path)
    assert names(tmp_path) == ["place"]
