"""ScanCode in an environment of its own, build/scan: `python requirements/scan.py`.

Its dependencies are locked in requirements/scan.txt (from scan.in, by `make lock`), apart from the farm's. Exit status
3 when they cannot be had.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import separate

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "scan.txt"
PLACE = ROOT / "build" / "scan"
STAMP = "scanner.json"


def main() -> None:
    """Make build/scan what the lock says, or leave it as it is when it is that already."""
    wanted = identity()
    if separate.ensure(PLACE, LOCK, STAMP, wanted, proof=(str(PLACE / "bin" / "scancode"), "--version")):
        print(f"build/scan: {json.loads(wanted)['name']} {json.loads(wanted)['version']}")


def identity() -> str:
    """The canonical JSON that the farm reads: name and version of the scanner, digest of its lock."""
    version = re.search(r"^scancode-toolkit==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if version is None:
        separate.fail("build/scan", "requirements/scan.txt does not pin scancode-toolkit")
    document = {"lock": separate.digest(LOCK), "name": "scancode-toolkit", "version": version[1]}
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
