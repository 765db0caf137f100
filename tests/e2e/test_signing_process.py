"""The signer as a process: started on demand, ended with its build, the only one to read the key."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelfarm import oci_bundle, paths
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.paths import Home
from signing import client, keys
from signing.client import SocketSigner
from tests.support import bundles
from tests.support.services import HANG_S

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home").create()
    keys.new(made)
    return made


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it holds within this time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def temporaries(home: Home) -> list[str]:
    return sorted(path.name for path in home.run.iterdir())


def test_a_build_gets_its_bundle_signed_and_leaves_no_signer(home: Home, tmp_path: Path) -> None:
    with client.open_signer(home) as signer:
        assert isinstance(signer, SocketSigner)
        assert stat.S_IMODE(signer.socket.stat().st_mode) == 0o600
        made = bundles.write(tmp_path / "cls", tmp_path / "work", signed_by=signer)
        public = signer.public

    assert bundles.verified(made.path, public).ok
    assert public == keys.load_public(keys.find(home).public)
    assert temporaries(home) == []
    assert "signing 3 statements about " + made.digest in (home.logs / "signer.log").read_text()


def test_the_build_never_opens_the_private_key(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(keys, "load_private", lambda path: pytest.fail(f"the build read {path}"))
    recording = [True]
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if recording[0] and event == "open" else None)
    try:
        with client.open_signer(home) as signer:
            bundles.write(tmp_path / "cls", tmp_path / "work", signed_by=signer)
    finally:
        recording[0] = False

    assert any(path.endswith("default.pub") for path in opened)
    assert not any(path.endswith("default.key") for path in opened)


def test_a_deep_state_folder_is_no_obstacle(tmp_path: Path) -> None:
    deep = Home(tmp_path / ("d" * 120) / "mit Leerzeichen und ü")
    keys.new(deep)

    with client.open_signer(deep) as signer:
        made = bundles.write(tmp_path / "cls", tmp_path / "work", signed_by=signer)

        assert bundles.verified(made.path, signer.public).ok


def test_without_a_key_the_build_is_told_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught, client.open_signer(Home(tmp_path)):
        pass

    assert (caught.value.code, caught.value.status) == (Code.KEY_MISSING, Status.USAGE)
    assert "farm keys new" in caught.value.next_step


def test_a_key_that_others_may_read_is_refused_by_the_signer(home: Home) -> None:
    keys.find(home).private.chmod(0o644)

    with pytest.raises(FarmError) as caught, client.open_signer(home):
        pass

    assert caught.value.code is Code.KEY_EXPOSED
    assert temporaries(home) == []


def test_a_public_key_that_does_not_belong_to_the_private_one_is_noticed(home: Home) -> None:
    keys.find(home).public.write_text(bundles.signer().public.pem)

    with pytest.raises(FarmError) as caught, client.open_signer(home):
        pass

    assert caught.value.code is Code.WRONG_KEY


BUILD = """
import sys, time
from pathlib import Path
from kernelfarm.paths import Home
from signing import client

with client.open_signer(Home(Path(sys.argv[1]))) as signer:
    print(signer.socket, flush=True)
    time.sleep(60)
"""


def test_when_the_build_is_killed_its_signer_ends_too(home: Home) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUILD, str(home.root)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as build:
        assert build.stdout is not None
        socket = Path(build.stdout.readline().strip())
        assert socket.is_socket()
        build.kill()

    assert eventually(lambda: not socket.exists())
    assert "ended" in (home.logs / "signer.log").read_text()
    with client.open_signer(home):  # sweeps what the killed build left
        assert len(temporaries(home)) == 1
    assert temporaries(home) == []


@contextlib.contextmanager
def foreground(home: Home, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`farm signer`, listening."""
    argv = [sys.executable, "-m", "farm.cli.main", "signer", *arguments]
    environment = {**os.environ, "FARM_HOME": str(home.root)}
    with subprocess.Popen(argv, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert eventually(lambda: client.socket_of(home).is_socket(), 10)
            yield process
        finally:
            process.kill()


def test_a_signer_in_the_foreground_serves_builds_and_ends_on_a_signal(home: Home, tmp_path: Path) -> None:
    with foreground(home) as process:
        for number in range(2):
            with client.open_signer(home) as signer:
                assert isinstance(signer, SocketSigner)
                assert signer.socket == client.socket_of(home)
                made = bundles.write(tmp_path / str(number) / "cls", tmp_path / "work", signed_by=signer)
                assert bundles.verified(made.path, signer.public).ok
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=HANG_S)

    assert process.returncode == 0
    assert log.count("signing 3 statements") == 2
    assert not client.socket_of(home).exists()


def test_a_signer_ends_when_nobody_comes(home: Home) -> None:
    with foreground(home, "--idle", "0.3") as process:
        assert process.wait(timeout=HANG_S) == 0
    assert not client.socket_of(home).exists()


def test_a_second_signer_at_the_same_place_is_refused_and_the_first_stays(home: Home) -> None:
    with foreground(home):
        second = subprocess.run(
            [sys.executable, "-m", "farm.cli.main", "signer"],
            cwd=REPOSITORY,
            env={**os.environ, "FARM_HOME": str(home.root)},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert (second.returncode, "FARM-E0532" in second.stderr) == (3, True)
        with client.open_signer(home) as signer:
            assert isinstance(signer, SocketSigner)
            assert signer.socket == client.socket_of(home)


def test_the_socket_of_a_killed_signer_is_replaced(home: Home) -> None:
    with foreground(home) as first:
        first.kill()
        first.wait()
    assert client.socket_of(home).is_socket()
    with client.open_signer(home) as signer:  # nobody listens there: a process of its own
        assert isinstance(signer, SocketSigner)
        assert signer.socket != client.socket_of(home)

    with foreground(home, "--idle", "0.3") as second:
        assert second.wait(timeout=HANG_S) == 0
    assert not client.socket_of(home).exists()


def test_a_signer_allows_no_core_dump(home: Home) -> None:
    with foreground(home) as process:
        assert eventually(lambda: "Max core file size        0 " in Path(f"/proc/{process.pid}/limits").read_text())


def test_the_bundle_of_a_real_signer_reads_back_without_fault(home: Home, tmp_path: Path) -> None:
    with client.open_signer(home) as signer:
        made = bundles.write(tmp_path / "cls", tmp_path / "work", signed_by=signer)

    view = oci_bundle.read(made.path).require()
    assert len(view.attestations) == 3
    assert paths.home({"FARM_HOME": str(home.root)}) == home
