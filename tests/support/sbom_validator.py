"""An independent validator of CycloneDX documents: its JavaScript library, in a locked environment of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from kernelfarm import digest
from tests.support import models, services

SOURCE = models.ROOT / "requirements" / "sbom-validator"
PLACE = models.ROOT / "build" / "tools" / "sbom-validator"
_INSTALL_S = 300.0


def installed() -> Path:
    """The folder of the validator, installed once from its lock; without node, npm or a registry the test is skipped.

    Under CI it fails.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        services.missing("node and npm are not installed")
    stamp, wanted = PLACE / "stamp", digest.of_tree(SOURCE, ("*", ".npmrc"))
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{PLACE}.lock"):
        if not stamp.is_file() or stamp.read_text() != wanted:
            shutil.rmtree(PLACE, ignore_errors=True)
            shutil.copytree(SOURCE, PLACE)
            words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(words, cwd=PLACE, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
            if done.returncode:
                services.missing(f"the validator cannot be installed: {done.stderr.strip()[-300:]}")
            stamp.write_text(wanted)
    return PLACE


def complaints(folder: Path, paths: Sequence[Path]) -> list[str]:
    """A line for each document that the validator in `folder` refuses."""
    words = ["node", str(folder / "validate.mjs"), *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert bool(done.stdout) == bool(done.returncode), done.stderr
    return done.stdout.splitlines()
