"""The command line with the slow compiler, as somebody at a terminal uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.services import HANG_S

PROGRAM = Path(__file__).with_name("slow_farm.py")


@dataclass
class Shell:
    """Runs `farm` in `folder`, where the model lies, with its state in `home` and a slow compiler."""

    folder: Path
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @contextmanager
    def closing(self) -> Iterator[Shell]:
        """Kill what still runs at the end of the block."""
        try:
            yield self
        finally:
            for process in self.started:
                if process.poll() is None:
                    process.kill()
                process.communicate()

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        own = {"FARM_HOME": str(self.home), "FARM_LEASE_S": "2.5", "FARM_RUNNER": "process"}
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *words],
            cwd=self.folder,
            env={**os.environ, **own, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit status, standard output and error of a command."""
        process = self.begin(*words)
        out, err = process.communicate(timeout=HANG_S)
        return process.returncode, out, err

    def json(self, *words: str) -> Any:
        """The JSON document that a command prints."""
        return json.loads(self.run(*words, "--json")[1])
