"""The content store: atomic, verified, shared, honest about a bad disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernelfarm import files
from kernelfarm.digest import Digest, of_bytes
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.store import ContentStore, Entry

REPOSITORY = Path(__file__).parents[2]
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def every_file(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_bytes_come_back_by_their_digest(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    assert digest == "sha256:" + ABC
    assert store.get_bytes(digest) == b"abc"
    assert store.open_path(digest) == tmp_path / "store" / "sha256" / "ba" / ABC
    assert store.open_path(digest).stat().st_mode & 0o777 == 0o444
    assert store.has(digest)
    assert not store.has(of_bytes(b"other"))
    assert every_file(tmp_path) == [f"store/sha256/ba/{ABC}"]


def test_a_file_and_its_bytes_are_one_blob(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    (tmp_path / "file").write_bytes(b"abc")
    assert store.put_file(tmp_path / "file") == store.put_bytes(b"abc")
    empty = store.put_bytes(b"")
    assert list(store.digests()) == sorted([of_bytes(b"abc"), empty])
    assert store.get_bytes(empty) == b""


def test_putting_what_is_there_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    (tmp_path / "file").write_bytes(b"abc")
    monkeypatch.setattr(files, "temp_file", None)
    assert store.put_bytes(b"abc") == digest
    assert store.put_file(tmp_path / "file") == digest


def test_a_missing_blob_is_named(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    digest = of_bytes(b"abc")
    for read in (store.get_bytes, store.open_path, lambda digest: store.export(digest, tmp_path / "out")):
        with pytest.raises(FarmError) as caught:
            read(digest)
        assert (caught.value.code, caught.value.status) == (Code.STORE_MISSING, Status.BAD)
        assert caught.value.detail["digest"] == digest
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", [b"abd", b"", b"abc\0", b"ab"])
def test_a_damaged_blob_is_found_at_every_read_and_its_file_named(tmp_path: Path, damage: bytes) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    blob = store.open_path(digest)
    blob.chmod(0o644)
    blob.write_bytes(damage)
    for read in (store.get_bytes, store.open_path, lambda digest: store.export(digest, tmp_path / "out")):
        with pytest.raises(FarmError) as caught:
            read(digest)
        assert (caught.value.code, caught.value.status) == (Code.STORE_CORRUPT, Status.BAD)
        assert caught.value.detail == {"file": str(blob), "digest": digest, "found": of_bytes(damage)}
        assert str(blob) in str(caught.value)
    assert every_file(tmp_path) == [f"store/sha256/ba/{ABC}"]


@pytest.mark.parametrize("how", ["bytes", "file"])
def test_putting_the_right_bytes_again_heals_a_damaged_blob(tmp_path: Path, how: str) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    blob = store.open_path(digest)
    blob.chmod(0o644)
    blob.write_bytes(b"damaged")
    (tmp_path / "file").write_bytes(b"abc")
    store.put_bytes(b"abc") if how == "bytes" else store.put_file(tmp_path / "file")
    assert store.get_bytes(digest) == b"abc"


def test_an_export_is_a_whole_file_with_its_mode(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    out = tmp_path / "out"
    out.write_bytes(b"old and longer")
    store.export(store.put_bytes(b"abc"), out, mode=0o755)
    assert (out.read_bytes(), out.stat().st_mode & 0o777) == (b"abc", 0o755)


@pytest.mark.parametrize("text", ["", "sha256:../../etc/passwd", "../x", "sha256:" + "Z" * 64])
def test_no_digest_leads_out_of_the_folder(tmp_path: Path, text: str) -> None:
    with pytest.raises(FarmError) as caught:
        ContentStore(tmp_path / "store").get_bytes(Digest(text))
    assert caught.value.code is Code.DIGEST_INVALID


def test_a_file_that_cannot_be_read_is_an_environment_error(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        ContentStore(tmp_path / "store").put_file(tmp_path / "none")
    assert (caught.value.code, caught.value.detail) == (Code.FILE_MISSING, {"file": str(tmp_path / "none")})


def test_threads_that_put_the_same_bytes_all_succeed(tmp_path: Path) -> None:
    blobs = [bytes([number]) * 200_000 for number in range(3)]
    found: list[tuple[Digest, bytes]] = []

    def work() -> None:
        store = ContentStore(tmp_path / "store")
        for blob in blobs:
            digest = store.put_bytes(blob)
            found.append((digest, store.get_bytes(digest)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([(of_bytes(blob), blob) for blob in blobs] * 6)
    assert len(every_file(tmp_path)) == 3


WRITER = """
import sys, time
from pathlib import Path
from kernelfarm import store

def stall(source, target):
    target.write(b"half of")
    target.flush()
    print("writing", flush=True)
    time.sleep(60)

store._copy = stall
store.ContentStore(Path(sys.argv[1])).put_bytes(b"content")
"""


def writer(root: Path) -> subprocess.Popen[str]:
    """A process in the middle of a put."""
    argv = [sys.executable, "-c", WRITER, str(root)]
    process = subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_a_writer_killed_in_the_middle_leaves_nothing_after_the_next_start(tmp_path: Path) -> None:
    root = tmp_path / "store"
    dead, living = writer(root), writer(root)
    try:
        dead.kill()
        dead.wait()
        before = every_file(root)
        store = ContentStore(root)
        after = every_file(root)
        assert (len(before), len(after)) == (2, 1)
        assert set(after) < set(before)
        assert not store.has(of_bytes(b"content"))
        assert list(store.digests()) == []
    finally:
        living.kill()
        living.wait()
    assert len(store.sweep()) == 1
    assert every_file(root) == []


def in_a_small_file_system(folder: Path, script: str) -> str:
    """Standard output of a Python script in a mount namespace of its own, with 1 MiB of tmpfs over `folder`."""
    folder.mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    inside = ["unshare", "-Urm", "sh", "-c", mount, str(folder)]
    probe = subprocess.run([*inside, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no mount in a user namespace here: {probe.stderr.strip()}")
    argv = [*inside, sys.executable, "-c", script, str(folder)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


DISK_FULL = """
import os, sys
from pathlib import Path
from kernelfarm.errors import FarmError
from kernelfarm.store import ContentStore, Entry

root = Path(sys.argv[1]) / "store"
store = ContentStore(root)
kept = store.put_bytes(b"kept")
source = Path("/dev/shm/kernelfarm-big-%d" % os.getpid())
source.write_bytes(bytes(2 << 20))
try:
    for put in (lambda: store.put_bytes(bytes(2 << 20)), lambda: store.put_file(source)):
        try:
            put()
        except FarmError as error:
            print(error.code.name, int(error.status))
finally:
    source.unlink()
print(store.get_bytes(kept), sorted(path.name for path in root.rglob("*") if path.is_file()) == [kept[7:]])
"""


def test_a_full_disk_is_an_environment_error_and_nothing_half_written_stays(tmp_path: Path) -> None:
    answer = in_a_small_file_system(tmp_path / "disk", DISK_FULL)
    assert answer.splitlines() == ["DISK_FULL 3", "DISK_FULL 3", "b'kept' True"]


READ_ONLY = """
import subprocess, sys
from pathlib import Path
from kernelfarm import files
from kernelfarm.errors import FarmError
from kernelfarm.store import ContentStore, Entry

root = Path(sys.argv[1])
store = ContentStore(root / "store")
kept = store.put_bytes(b"kept")
(root / "store" / "tmp" / files.temp_name()).write_bytes(b"")
subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
store = ContentStore(root / "store")
print(store.get_bytes(kept), store.put_bytes(b"kept") == kept)
try:
    store.put_bytes(b"new")
except FarmError as error:
    print(error.code.name, int(error.status))
"""


def test_a_read_only_store_can_be_read_and_says_so_when_written(tmp_path: Path) -> None:
    answer = in_a_small_file_system(tmp_path / "disk", READ_ONLY)
    assert answer.splitlines() == ["b'kept' True", "READ_ONLY 3"]


def test_what_lies_in_the_store_and_since_when(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    os.utime(store.open_path(digest), (100.0, 100.0))
    assert list(store.entries()) == [Entry(digest, 3, 100.0)]


@pytest.mark.parametrize("again", ["bytes", "file"])
def test_a_put_renews_the_time_of_what_is_there(tmp_path: Path, again: str) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    os.utime(store.open_path(digest), (100.0, 100.0))
    (tmp_path / "file").write_bytes(b"abc")
    _ = store.put_bytes(b"abc") if again == "bytes" else store.put_file(tmp_path / "file")
    assert next(store.entries()).put_at > 1e9
    assert not store.remove(digest, before=1e9)
    assert store.has(digest)


def test_an_old_blob_is_removed_and_a_missing_one_is_gone_already(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "store")
    digest = store.put_bytes(b"abc")
    os.utime(store.open_path(digest), (100.0, 100.0))
    assert store.remove(digest, before=101.0)
    assert not store.has(digest)
    assert store.remove(digest, before=101.0)
