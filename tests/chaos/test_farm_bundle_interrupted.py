"""Writers that die, race or run out of disk leave the old bundle or the new one, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from farm import publish
from kernelfarm import files, oci_bundle
from tests.support import bundles

REPOSITORY = Path(__file__).parents[2]

WRITER = """
import os, signal, sys
from pathlib import Path
from farm import bundle, publish, staging
from tests.support import bundles

out, work, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
write_top, exchange, rename, seen = staging.write_top, publish._exchange, Path.rename, []

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def die_at_the_second(*arguments):
    write_top(*arguments)
    seen.append(1)
    if len(seen) == 2:
        die()

def die_after(*arguments):
    exchange(*arguments)
    die()

def die_when_the_new_one_comes(path, target):
    return rename(path, target) if ".previous" in str(target) else die()

if step == "copy":
    bundle._copy = die
elif step == "sign":
    bundles.LocalSigner.sign = die
elif step == "attach":
    staging.write_top = die_at_the_second
elif step == "publish":
    publish.publish = die
elif step == "swap":
    publish._exchange = die_after
elif step == "aside":
    publish._exchange = lambda *_: False
    Path.rename = die_when_the_new_one_comes
bundles.write(out, work, salt="new")
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("step", ["copy", "sign", "attach", "publish", "swap", "aside"])
def test_a_writer_that_is_killed_leaves_the_old_bundle_or_the_new_one(tmp_path: Path, step: str) -> None:
    out = tmp_path / "out" / "cls"
    old = bundles.write(out, tmp_path / "work").digest
    new = bundles.write(tmp_path / "reference", tmp_path / "work", salt="new").digest

    killed = subprocess.run(
        [sys.executable, "-c", WRITER, str(out), str(tmp_path / "work2"), step], cwd=REPOSITORY, check=False
    )

    assert killed.returncode == -signal.SIGKILL
    assert len(names(out.parent)) >= 2  # what the dead writer left
    publish.recover(out)
    assert oci_bundle.read(out).require().digest == (new if step == "swap" else old)
    again = bundles.write(out, tmp_path / "work", salt="new")
    assert (again.digest, names(out.parent)) == (new, ["cls"])
    assert bundles.verified(out).ok


def test_a_living_writer_s_folder_is_not_swept(tmp_path: Path) -> None:
    with files.temp_folder(tmp_path) as theirs:
        bundles.write(tmp_path / "cls", tmp_path / "work")

        assert theirs.is_dir()


def test_writers_of_one_bundle_at_once_all_succeed(tmp_path: Path) -> None:
    out = tmp_path / "out" / "cls"
    faults: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(4):
                bundles.write(out, tmp_path / f"work{number}", salt=f"{number} {turn}")
        except BaseException as fault:  # noqa: BLE001 - handed to the test
            faults.append(fault)

    def read(stop: threading.Event) -> None:
        while not stop.is_set():
            if not (out / "index.json").is_file():
                faults.append(AssertionError("a reader found no bundle"))
                return

    bundles.write(out, tmp_path / "first")
    stop = threading.Event()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    reader = threading.Thread(target=read, args=(stop,))
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    reader.join()

    assert faults == []
    assert bundles.verified(out).ok
    assert names(out.parent) == ["cls"]


def in_a_small_file_system(folder: Path, script: str) -> str:
    """Standard output of a script in a mount namespace of its own, with 256 KiB of tmpfs over `folder`."""
    folder.mkdir()
    mount = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
    inside = ["unshare", "-Urm", "sh", "-c", mount, str(folder)]
    probe = subprocess.run([*inside, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no mount in a user namespace here: {probe.stderr.strip()}")
    argv = [*inside, sys.executable, "-c", script, str(folder), str(folder.parent)]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


FULL = """
import sys
from pathlib import Path
from kernelfarm import oci_bundle
from kernelfarm.errors import FarmError
from tests.support import bundles

disk, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
old = bundles.write(disk / "cls", elsewhere / "work").digest
fill = disk / "fill"
with fill.open("wb", buffering=0) as stream:
    try:
        while stream.write(bytes(4096)):
            pass
    except OSError:
        pass
try:
    bundles.write(disk / "cls", elsewhere / "work", salt="new")
except FarmError as error:
    print(error.code.name, int(error.status))
print(oci_bundle.read(disk / "cls").require().digest == old, sorted(path.name for path in disk.iterdir()))
"""


def test_a_full_disk_is_an_environment_error_and_the_old_bundle_stays(tmp_path: Path) -> None:
    answer = in_a_small_file_system(tmp_path / "disk", FULL)

    assert answer.splitlines() == ["DISK_FULL 3", "True ['cls', 'fill']"]


LEDGER = """
import sys
from pathlib import Path
from farm.ledger.ledger import opened
from kernelfarm.errors import FarmError
from tests.support import farms

disk, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
with farms.session(elsewhere / "store") as made:
    jobs = [farms.job(made.store, data=bytes([number])) for number in range(250)]
with opened(disk / "ledger.sqlite3") as ledger:
    farms.submit(ledger, jobs.pop())
    with (disk / "fill").open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(1 << 12)):
                pass
        except OSError:
            pass
    met = set()
    for job in jobs:
        try:
            farms.submit(ledger, job)
        except FarmError as error:
            met.add((error.code.name, int(error.status)))
    print(sorted(met))
    (disk / "fill").unlink()
    farms.submit(ledger, jobs[0])
    print("again")
"""


def test_a_full_disk_under_the_ledger_is_named_and_passes(tmp_path: Path) -> None:
    """SQLite calls it an I/O error where a file is one that it maps."""
    answer = in_a_small_file_system(tmp_path / "disk", LEDGER)

    assert answer.splitlines() == ["[('DISK_FULL', 3)]", "again"]


READ_ONLY = """
import subprocess, sys
from pathlib import Path
from kernelfarm.errors import FarmError
from tests.support import bundles

disk, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
for place in (disk / "cls", disk / "new" / "cls"):
    try:
        bundles.write(place, elsewhere / "work")
    except FarmError as error:
        print(error.code.name, int(error.status))
"""


def test_a_place_that_cannot_be_written_is_an_environment_error(tmp_path: Path) -> None:
    answer = in_a_small_file_system(tmp_path / "disk", READ_ONLY)

    assert answer.splitlines() == ["READ_ONLY 3", "READ_ONLY 3"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_environment_error(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)

    with pytest.raises(Exception, match="FARM-E0703"):
        bundles.write(tmp_path / "closed" / "cls", tmp_path / "work")
