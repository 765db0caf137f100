"""An independent validator of CycloneDX documents: its JavaScript library, in a locked environment of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import npm_tools
from tests.support.services import HANG_S


def installed() -> Path:
    """The folder of the validator; see `npm_tools.installed`."""
    return npm_tools.installed("sbom-validator")


def complaints(folder: Path, paths: Sequence[Path]) -> list[str]:
    """A line for each document that the validator in `folder` refuses."""
    words = ["node", str(folder / "validate.mjs"), *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert bool(done.stdout) == bool(done.returncode), done.stderr
    return done.stdout.splitlines()
