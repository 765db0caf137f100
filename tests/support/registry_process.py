"""The process of Debian's docker-registry, however it is configured."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import services


@dataclass(slots=True)
class RegistryProcess:
    """A registry with this configuration, which is up once `answers`; it writes a log into `folder`."""

    config: Path
    folder: Path
    answers: Callable[[], bool]
    _process: subprocess.Popen[bytes] | None = field(default=None)

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = services.program("docker-registry", "docker-registry")
        log = self.folder / "registry.log"
        with log.open("ab") as stream:
            self._process = subprocess.Popen([program, "serve", str(self.config)], stdout=stream, stderr=stream)
        services.until(self.answers, "the registry", log)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
