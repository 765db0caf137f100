"""Workers and engines that die by SIGKILL: no sandbox outlives them, and what is left of a container is swept."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from containers import docker
from containers.docker import DockerRunner
from containers.runner import Limits, Tag
from kernelfarm import files
from kernelfarm.errors import Code, FarmError
from tests.support import farms, sandboxes
from tests.support.docker_engine import DockerEngine
from tests.support.sandboxes import GOOD, PREPARE
from tests.support.services import HANG_S

pytestmark = pytest.mark.services

WORKER = Path(sandboxes.__file__).with_name("sandbox_worker.py")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@contextmanager
def working(kind: str, home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A worker whose compile has started."""
    argv = [sys.executable, str(WORKER), kind, str(home), *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as worker:
        try:
            farms.eventually(lambda: any(home.glob("*/out/started")))
            yield worker
        finally:
            worker.kill()


def inside() -> list[int]:
    """Process ids of the programs that sleep in a sandbox."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 3 and words[1:3] == [b"-I", b"-c"] and b"open('out/started'" in words[3]:
                found.append(int(place.name))
    return found


def test_bubblewrap_ends_with_a_worker_that_is_killed(home: Path) -> None:
    with sandboxes.bubblewrap_sandbox(home), working("bubblewrap", home) as worker:
        assert len(inside()) == 1
        worker.kill()
        farms.eventually(lambda: inside() == [])
    files.sweep(home)
    assert list(home.iterdir()) == []


def test_a_container_ends_with_a_worker_that_is_killed_and_is_swept(docker_engine: DockerEngine, home: Path) -> None:
    with working("docker", home, docker_engine.address) as worker:
        assert docker_engine.containers() == ["7"]
        assert docker.sweep(home, docker_engine.address) == 0
        worker.kill()
        farms.eventually(lambda: inside() == [])  # by itself, without a sweep
        worker.wait()
        assert docker.sweep(home, docker_engine.address) == 1
    assert docker_engine.containers() == []


def test_a_sweep_takes_a_container_of_a_dead_worker_that_still_runs(docker_engine: DockerEngine, home: Path) -> None:
    with working("docker", home, docker_engine.address) as worker:
        client = docker_engine.client()
        client.containers.list()[0].pause()  # so that it cannot end by itself
        worker.kill()
        worker.wait()
        assert docker.sweep(home, docker_engine.address) == 1
        client.close()
    assert inside() == []
    assert docker_engine.containers() == []


def test_a_sweep_leaves_the_containers_of_other_farms_alone(
    docker_engine: DockerEngine, home: Path, tmp_path: Path
) -> None:
    with working("docker", home, docker_engine.address) as worker:
        worker.kill()
        worker.wait()
        assert docker.sweep(tmp_path / "another", docker_engine.address) == 0
        assert docker.sweep(home, docker_engine.address) == 1


def test_an_engine_that_is_killed_loses_the_compile_but_no_process_runs_on(
    docker_engine: DockerEngine, home: Path
) -> None:
    with working("docker", home, docker_engine.address) as worker:
        docker_engine.kill()
        try:
            said, _ = worker.communicate(timeout=HANG_S)
            assert said == "RUNNER_LOST\n"
            farms.eventually(lambda: inside() == [])  # though nobody is there to end it
            assert list(home.iterdir()) == []
        finally:
            docker_engine.start()
    farms.eventually(lambda: docker.sweep(home, docker_engine.address) >= 0 and docker_engine.containers() == [])


def test_an_engine_that_is_away_has_no_compile_and_nothing_to_sweep(home: Path, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/no.sock"
    runner = DockerRunner(sandboxes.image(), sandboxes.ROOT / "kernelfarm", home, nowhere)
    (home / "in").mkdir()
    with pytest.raises(FarmError) as caught:
        runner.compile_in(home)
    assert caught.value.code is Code.RUNNER_UNAVAILABLE
    assert runner.sweep() == 0


def test_an_interrupted_compile_removes_its_container_at_once(docker_engine: DockerEngine, home: Path) -> None:
    sleeper = (sandboxes.image().python, "-I", "-c", "import time; time.sleep(600)")
    runner = DockerRunner(sandboxes.image(), sandboxes.ROOT / "kernelfarm", home, docker_engine.address, sleeper)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(3.0, signal.pthread_kill, (main, signal.SIGINT)).start()
    with files.temp_folder(home) as scratch, pytest.raises(KeyboardInterrupt):
        sandboxes.fill(scratch / "in")
        runner.compile_in(scratch, tag=Tag(1, 1))
    assert docker_engine.containers() == []


def test_a_container_says_which_attempt_it_is(docker_engine: DockerEngine, home: Path) -> None:
    with working("docker", home, docker_engine.address):
        client = docker_engine.client()
        [container] = client.containers.list()
        labels, config = container.labels, container.attrs["HostConfig"]
        client.close()
        assert labels["kernel-farm.run"] == "7"
        assert labels["kernel-farm.fencing"] == "3"
        assert Path(labels["kernel-farm.scratch"]).parent == home
        facts = ("NetworkMode", "ReadonlyRootfs", "CapDrop", "SecurityOpt", "PidsLimit", "Init", "Memory", "MemorySwap")
        assert [config[name] for name in facts] == [
            *("none", True, ["ALL"], docker.walls(Limits())["security_opt"], 256, False),
            *(Limits().address_space, Limits().address_space),
        ]
    docker.sweep(home, docker_engine.address)


def test_two_compiles_take_two_containers_and_leave_none(docker_engine: DockerEngine, home: Path) -> None:
    program = (sandboxes.image().python, "-I", "-c", PREPARE + GOOD)
    runner = DockerRunner(sandboxes.image(), sandboxes.ROOT / "kernelfarm", home, docker_engine.address, program)
    client = docker_engine.client()
    began = int(time.time())
    for number in (101, 102):
        with files.temp_folder(home) as scratch:
            sandboxes.fill(scratch / "in")
            runner.compile_in(scratch, tag=Tag(number, 1))
    starts = [
        event["Actor"]["Attributes"]["kernel-farm.run"]
        for event in client.events(since=began, until=int(time.time()) + 1, decode=True, filters={"event": "start"})
        if event["Actor"]["Attributes"]["kernel-farm.home"] == docker.home_label(home)
    ]
    client.close()
    assert starts == ["101", "102"]
    assert docker_engine.containers() == []
