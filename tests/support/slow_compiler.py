"""A stand-in for the compiler's child: says that it began, waits for the file `go`, then writes a small valid payload.

KF_MARKS is a folder: a file `started-<pid>` that names target and model appears in it for each compile, `go` lets them
all end, `mode` may name a misdeed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def target_of(folder: Path) -> str:
    """The target's name in a request."""
    return str(json.loads((folder / "request.json").read_text())["target"]["name"])


def refuse(out: Path) -> None:
    """End as the compiler does for a file that is no model."""
    sys.path.insert(0, str(ROOT))
    from kernelfarm.errors import Code, FarmError

    error = FarmError(Code.MODEL_INVALID, "the model is not one", "it is a test", "Do nothing.")
    (out / "error.json").write_text(json.dumps(error.to_json()))
    raise SystemExit(1)


def main() -> None:
    """See above."""
    marks = Path(os.environ["KF_MARKS"])
    what = hashlib.sha256(Path(sys.argv[1], "model.onnx").read_bytes()).hexdigest()
    begun = marks / f"new-{os.getpid()}"
    begun.write_text(f"{target_of(Path(sys.argv[1]))} {what}")
    begun.rename(marks / f"started-{os.getpid()}")  # who sees it may kill us in the same moment
    sys.stdout.write('{"done":1,"name":"g0","stage":"group","total":2}\n')
    sys.stdout.flush()
    mode = (marks / "mode").read_text() if (marks / "mode").exists() else ""
    if mode == "memory":
        bytearray(1 << 40)
    if mode == f"refuse {target_of(Path(sys.argv[1]))}":
        refuse(Path(sys.argv[2]))
    while mode == "forever" or not (marks / "go").exists():
        time.sleep(0.02)
    sys.path.insert(0, str(ROOT))
    from tests.support import payloads

    payloads.write_result(Path(sys.argv[1]), Path(sys.argv[2]), salt=mode)


if __name__ == "__main__":
    main()
