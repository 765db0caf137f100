"""The compile child: `python -m kernelc IN_DIR OUT_DIR`. Progress is one line of JSON each on standard output.

A failure leaves OUT_DIR/error.json and the exit status of its code. Run it inside a limited child process: MLIR's
bindings abort on misuse.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from kernelfarm import canonical
from kernelfarm.errors import FarmError, Status


def main(arguments: list[str]) -> int:
    """Compile; the exit status."""
    if len(arguments) != 2:
        print("usage: python -m kernelc IN_DIR OUT_DIR", file=sys.stderr)
        return int(Status.USAGE)
    in_dir, out_dir = Path(arguments[0]), Path(arguments[1])
    os.umask(0o022)
    try:
        from kernelc import request  # here: what fails while these load is reported like any other error
        from kernelc.pipeline import compile_model

        compile_model(request.read(in_dir), in_dir, out_dir, _tell)
    except FarmError as error:
        print(error, file=sys.stderr)
        with contextlib.suppress(OSError):  # a full disk: the status and the log must do
            (out_dir / "error.json").write_bytes(canonical.dumps(error.to_json()))
        return int(error.status)
    return int(Status.DONE)


def _tell(stage: str, done: int, total: int, name: str) -> None:
    line = canonical.dumps({"stage": stage, "done": done, "total": total, "name": name})
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
