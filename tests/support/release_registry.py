"""A real registry (Debian's docker-registry) as consumers reach one, on a private port, with its garbage collector."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from farm.registry import consumer, publishing, reference
from farm.registry.publishing import Published
from farm.registry.reference import Reference
from farm.verify import Report
from kernelfarm import digest
from kernelfarm.paths import Home
from tests.support import bundles, services
from tests.support.registry_process import RegistryProcess
from tests.support.releases import Farm

REPOSITORY = "media/cls"


@dataclass(slots=True)
class ReleaseRegistry:
    """The registry of the folder; `host` is how a reference names it."""

    folder: Path
    host: str
    _process: RegistryProcess = field(init=False)

    def __post_init__(self) -> None:
        self._process = RegistryProcess(self._config, self.folder, self._answers)

    @property
    def _config(self) -> Path:
        return self.folder / "config.json"

    def start(self) -> None:
        """Start it and wait until it answers."""
        document = {
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "blobs")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.host, "relativeurls": True},
        }
        self._config.write_text(json.dumps(document))
        self._process.start()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def collect(self) -> str:
        """Run its garbage collector, which also removes whatever has no tag; what it said."""
        program = services.program("docker-registry", "docker-registry")
        self.kill()
        argv = [program, "garbage-collect", "--delete-untagged", str(self._config)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.start()
        return done.stdout

    def blob(self, wanted: str) -> Path:
        """The file in which it keeps a blob or document."""
        text = digest.hex_of(digest.parse(wanted))
        return self.folder / f"blobs/docker/registry/v2/blobs/sha256/{text[:2]}/{text}/data"

    def revision(self, repository: str, wanted: str) -> Path:
        """The file that says that a repository has a document."""
        text = digest.hex_of(digest.parse(wanted))
        return (
            self.folder / f"blobs/docker/registry/v2/repositories/{repository}/_manifests/revisions/sha256/{text}/link"
        )

    def tags(self, repository: str) -> list[str]:
        """All tags of a repository, sorted."""
        folder = self.folder / f"blobs/docker/registry/v2/repositories/{repository}/_manifests/tags"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def lose(self, repository: str, tag: str) -> None:
        """Have it forget a tag."""
        shutil.rmtree(self.folder / f"blobs/docker/registry/v2/repositories/{repository}/_manifests/tags" / tag)

    def copy(self, folder: Path) -> Path:
        """Its blobs as they are now, in another folder: what a mirror holds that is never brought up to date."""
        folder.mkdir(parents=True)
        shutil.copytree(self.folder / "blobs", folder / "blobs")
        return folder

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}/v2/") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def at(server: ReleaseRegistry, more: str = "") -> Reference:
    """The place of a test's releases in a registry, or with `more` one of them."""
    return reference.parse(f"{server.host}/{REPOSITORY}{more}")


def publish(farm: Farm, bundle: Path, place: Reference) -> Published:
    """Publish a test's bundle, whose payloads are no real ones."""
    return publishing.publish(farm.settings, bundle, place, check_payload=bundles.no_check)


def verify(home: Path, place: Reference, farm: Farm) -> Report:
    """What somebody finds whose state is in `home` and who has the public key alone."""
    return consumer.verify_reference(Home(home), place, farm.public, check_payload=bundles.no_check)


@contextmanager
def running(folder: Path) -> Iterator[ReleaseRegistry]:
    """A registry whose blobs lie in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = ReleaseRegistry(folder, f"127.0.0.1:{services.free_port()}")
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture
def release_registry(tmp_path: Path) -> Iterator[ReleaseRegistry]:
    """A registry of releases."""
    with running(tmp_path / "registry") as made:
        yield made
