"""A real Docker Engine of the tests' own: private socket, private folders, no bridge; it can be killed and come back.

from tests.support.docker_engine import docker_engine  # a fixture: one engine for a session
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

from tests.support import farms, services

_STOP_S = 30.0


class DockerEngine:
    """One engine; `address` stays the same over a restart."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            services.missing("dockerd runs as root only")
        self.folder = folder
        self.address = f"unix://{folder}/docker.sock"
        self._argv = [
            *("setpriv", "--pdeathsig", "TERM"),  # when the tests are killed it ends, and its containers with it
            services.program("dockerd", "docker.io"),
            *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"), "-H", self.address),
            *("--pidfile", str(folder / "docker.pid"), "--bridge=none", "--iptables=false", "--ip-forward=false"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._forget_the_dead()
        with (self.folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        services.until(self._answers, "dockerd", self.folder / "dockerd.log")

    def _forget_the_dead(self) -> None:
        """A killed engine leaves files with process ids; it believes them also when the process is a zombie by now."""
        (self.folder / "docker.pid").unlink(missing_ok=True)
        left = self.folder / "exec/containerd/containerd.pid"
        if left.exists() and not farms.alive(int(left.read_text())):
            left.unlink()

    def kill(self) -> None:
        """SIGKILL of dockerd alone, as a crash: containerd and the containers live on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """An orderly end; nothing of it runs on."""
        if self._process is None:
            self.start()  # a killed one has left its containerd and containers, which the next one ends
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_S)
        self._process = None

    @property
    def running(self) -> bool:
        """Whether dockerd was started and not killed."""
        return self._process is not None

    def client(self) -> docker.DockerClient:
        """A connection for the test itself."""
        return docker.DockerClient(base_url=self.address, version="auto", timeout=60)

    def containers(self) -> list[str]:
        """The containers there are, running or not: their labelled runs."""
        client = self.client()
        try:
            return [
                found.labels.get("kernel-farm.run", "?")
                for found in client.containers.list(all=True, ignore_removed=True)
            ]
        finally:
            client.close()

    def kill_containers(self) -> int:
        """SIGKILL for what runs in the containers, from outside; how many there were."""
        with contextlib.closing(self.client()) as client:
            found = client.containers.list(ignore_removed=True)
            for container in found:
                container.kill()
            return len(found)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self.folder / "dockerd.log").read_text(errors="replace")[-2000:]
            services.missing(f"dockerd does not start here: {log}")
        try:
            client = self.client()
        except DockerException:
            return False
        try:
            return bool(client.ping())
        except DockerException:
            return False
        finally:
            client.close()


def _unmount(folder: Path) -> None:
    """An engine mounts its data folder onto itself and leaves it so."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in reversed(places):
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=False)


@contextmanager
def running() -> Iterator[DockerEngine]:
    """An engine for the time of the block."""
    folder = Path(tempfile.mkdtemp(prefix="kf-docker-"))  # a socket's address holds 107 bytes
    try:
        engine = DockerEngine(folder)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop()
    finally:
        _unmount(folder)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A running engine; a test that kills it starts it again."""
    with running() as engine:
        yield engine
