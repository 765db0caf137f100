"""ScanCode in an environment of its own, build/scan: `python requirements/scan.py`.

Its dependencies are locked in requirements/scan.txt (from scan.in, by `make lock`), apart from the farm's. Exit status
3 when they cannot be had.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "scan.txt"
PLACE = ROOT / "build" / "scan"
STAMP = "scanner.json"
ENVIRONMENT = 3


def main() -> None:
    """Make build/scan what the lock says, or leave it as it is when it is that already."""
    wanted = identity()
    stamp = PLACE / STAMP
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    venv.create(PLACE, with_pip=True, symlinks=True)
    python = str(PLACE / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(LOCK))
    run(python, "-I", str(PLACE / "bin" / "scancode"), "--version")
    stamp.write_text(wanted, encoding="ascii")
    print(f"build/scan: {json.loads(wanted)['name']} {json.loads(wanted)['version']}")


def identity() -> str:
    """The canonical JSON that the farm reads: name and version of the scanner, digest of its lock."""
    text = LOCK.read_bytes()
    version = re.search(rb"^scancode-toolkit==(\S+)", text, re.MULTILINE)
    if version is None:
        fail("requirements/scan.txt does not pin scancode-toolkit")
    lock = f"sha256:{hashlib.sha256(text).hexdigest()}"
    document = {"lock": lock, "name": "scancode-toolkit", "version": version[1].decode()}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def run(*argv: str) -> None:
    """Run a program or end with what it said."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"{' '.join(argv[1:4])} failed: {done.stderr.strip() or done.stdout.strip()}")


def fail(why: str) -> NoReturn:
    """End with the exit status of a lacking environment."""
    print(f"make scan-tools: {why}", file=sys.stderr)
    raise SystemExit(ENVIRONMENT)


if __name__ == "__main__":
    main()
