"""Environments apart from the farm's: a folder below build/, made of one lock file, made again when that changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NoReturn

ENVIRONMENT = 3
"""Exit status when one cannot be had."""


def ensure(place: Path, lock: Path, stamp: str, wanted: str, *, proof: tuple[str, ...]) -> bool:
    """Make `place` what the lock says, or leave it as it is when the file `stamp` in it holds `wanted`; whether it did.

    `proof` are words for its Python that must end well before the stamp is written. Ends the process when one fails.
    """
    mark = place / stamp
    if mark.is_file() and mark.read_text(encoding="ascii") == wanted:
        return False
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    venv.create(place, with_pip=True, symlinks=True)
    python = str(place / "bin" / "python")
    _run(place.name, python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(lock))
    _run(place.name, python, "-I", *proof)
    mark.write_text(wanted, encoding="ascii")
    return True


def digest(lock: Path) -> str:
    """The lock's digest."""
    return f"sha256:{hashlib.sha256(lock.read_bytes()).hexdigest()}"


def fail(name: str, why: str) -> NoReturn:
    """End with the exit status of a lacking environment."""
    print(f"the environment {name} cannot be had: {why}", file=sys.stderr)
    raise SystemExit(ENVIRONMENT)


def _run(name: str, *argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(name, f"{' '.join(argv[1:4])} failed: {done.stderr.strip() or done.stdout.strip()}")
