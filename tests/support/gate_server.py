"""A real gate (`farm serve`) in a process of its own, beside a real registry, for the farm in a test's folder."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from farm.gate import authority, joining
from farm.gate.client import Gate
from farm.gate.identities import Identities
from farm.scheduler import Session
from kernelfarm import files
from kernelfarm.paths import Home
from tests.support import farms, registry_server, services
from tests.support.registry_server import RegistryServer

FARM = (sys.executable, "-m", "farm.cli.main")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class GateServer:
    """The gate of the farm whose state the test holds open in `farm`."""

    farm: Session
    registry: RegistryServer
    folder: Path
    listen: str
    url: str = ""
    lease_s: float = 20.0
    _process: subprocess.Popen[str] | None = field(default=None)

    @property
    def identities(self) -> Identities:
        """The records of the workers."""
        return Identities(self.registry.keys)

    @property
    def log(self) -> str:
        """What the gate said."""
        return (self.folder / "gate.log").read_text()

    def start(self) -> None:
        """Start it, at the address that it had before, and wait until it listens."""
        address = self.url.removeprefix("https://") or f"{self.listen}:0"
        environment = {**os.environ, "FARM_HOME": str(self.farm.settings.home.root), "FARM_LEASE_S": str(self.lease_s)}
        with (self.folder / "gate.log").open("a") as log:
            self._process = subprocess.Popen(
                [*FARM, "serve", "--listen", address, "--registry", self.registry.url],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=ROOT,
                preexec_fn=_few_files,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("gate: listening at "), self.log
        self.url = line.removeprefix("gate: listening at ").strip()

    def stop(self) -> int:
        """End it in order; its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout=services.HANG_S)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def invite(self, name: str) -> Path:
        """The ticket of a new worker."""
        path = self.folder / f"{name}.pem"
        _record, secret = self.identities.enrol(name, force=True)
        files.atomic_write(path, secret, mode=0o600)
        return path

    def enrol(self, name: str) -> Path:
        """The identity file of a new worker, which has joined."""
        path = self.invite(name)
        assert joining.ensure_joined(self.url, path)
        return path

    def as_worker(self, name: str) -> Gate:
        """The gate as a newly enrolled worker sees it."""
        return Gate(self.url, self.enrol(name))


def _few_files() -> None:
    """As few open files as a shell may allow at first: the gate takes more by itself."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@contextmanager
def running(folder: Path, *, listen: str = "127.0.0.1", lease_s: float = 20.0) -> Iterator[GateServer]:
    """A gate and a registry at the address `listen`, for the farm in `folder`/home."""
    services.program("docker-registry", "docker-registry")
    home = Home(folder / "home").create()
    authority.ensure(home)
    with (
        farms.session(home.root, lease_s=lease_s) as farm,
        registry_server.running(home, folder, listen=listen) as registry,
    ):
        made = GateServer(farm, registry, folder, listen, lease_s=lease_s)
        try:
            made.start()
            yield made
        finally:
            made.kill()


@pytest.fixture
def gate_server(tmp_path: Path) -> Iterator[GateServer]:
    """A gate of this test alone."""
    with running(tmp_path) as made:
        yield made
