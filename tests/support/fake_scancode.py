"""Stands in for ScanCode: reports by what a file says. `hang`, `crash` and `mute` in a file do just that.

With BROKEN set it never works.

A file with `slow` is interrupted, of one with `late` a part is reported, without a word but the time that it took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Write the report of `... --json out.json in`."""
    seen = Path(os.environ["SEEN"])
    place, folder = Path(sys.argv[-2]), Path(sys.argv[-1])
    entries = [{"path": "in", "type": "directory"}]
    with seen.open("a") as log:
        log.write(" ".join(sorted(path.name for path in folder.iterdir())) + "\n")
    if os.environ.get("BROKEN"):
        sys.exit(3)
    for path in sorted(folder.iterdir()):
        text = path.read_bytes()
        if b"hang" in text:
            time.sleep(600)
        if b"crash" in text:
            os.abort()
        if b"mute" in text:
            sys.exit(0)
        found = "GPL-3.0-only" if b"GPL" in text else None
        match = {"license_expression_spdx": found, "rule_identifier": "x.RULE", "start_line": 3, "score": 99.6}
        entry = {
            "path": f"in/{path.name}",
            "type": "file",
            "detected_license_expression_spdx": found,
            "license_detections": [{"matches": [match]}] if found else [],
            "scan_timings": {"licenses": 1.01 if b"late" in text else 0.02},
            "scan_errors": ["ERROR: Processing interrupted: timeout after 2 seconds."] if b"slow" in text else [],
        }
        entries.append({"path": f"in/{path.name}", "type": "file"} if b"odd" in text else entry)
    place.write_text(json.dumps({"files": entries}))


if __name__ == "__main__":
    main()
