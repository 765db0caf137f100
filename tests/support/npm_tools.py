"""Programs from npm, each in a locked environment of its own below build/tools: `requirements/NAME` holds the lock."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from filelock import FileLock

from kernelfarm import digest
from tests.support import models, services

PLACE = models.ROOT / "build" / "tools"
_INSTALL_S = 300.0


def installed(name: str) -> Path:
    """The folder of a program, installed once from its lock; without node, npm or a registry the test is skipped.

    Under CI it fails.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        services.missing("node and npm are not installed")
    source, place = models.ROOT / "requirements" / name, PLACE / name
    stamp, wanted = place / "stamp", digest.of_tree(source, ("*", ".npmrc"))
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        if not stamp.is_file() or stamp.read_text() != wanted:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(source, place)
            words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
            if done.returncode:
                services.missing(f"{name} cannot be installed: {done.stderr.strip()[-300:]}")
            stamp.write_text(wanted)
    return place
