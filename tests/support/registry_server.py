"""A real registry of blobs (Debian's docker-registry), configured as `farm registry` does, on a private port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from pathlib import Path

import pytest

from farm.gate import authority, registry
from farm.gate.authority import Authority
from farm.https import Peer
from kernelfarm.errors import FarmError
from kernelfarm.paths import Home
from tests.support import services
from tests.support.registry_process import RegistryProcess


@dataclass(slots=True)
class RegistryServer:
    """The registry of a farm whose authority is `keys`."""

    keys: Authority
    folder: Path
    url: str
    config: InitVar[Path]
    _process: RegistryProcess = field(init=False)

    def __post_init__(self, config: Path) -> None:
        self._process = RegistryProcess(config, self.folder, self._answers)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process.start()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def peer(self) -> Peer:
        """The registry as the gate reaches it."""
        return registry.peer(self.keys, self.url)

    def _answers(self) -> bool:
        try:
            with self.peer().ask("GET", "v2/") as answer:
                return bool(answer.status_code == 401)
        except FarmError:
            return False


@contextmanager
def running(home: Home, folder: Path, *, listen: str = "127.0.0.1") -> Iterator[RegistryServer]:
    """The registry of the farm in `home`, its blobs in `folder`."""
    keys = authority.ensure(home)
    address = f"{listen}:{services.free_port()}"
    config = registry.write_config(keys, listen=address, storage=folder / "blobs")
    made = RegistryServer(keys, folder, f"https://{address}", config)
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture
def registry_server(tmp_path: Path) -> Iterator[RegistryServer]:
    """A registry for the farm in `tmp_path`/home."""
    with running(Home(tmp_path / "home").create(), tmp_path) as made:
        yield made
