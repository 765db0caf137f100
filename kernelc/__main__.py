"""The compile child: `python -m kernelc [explain] IN_DIR OUT_DIR`. Progress is a line of JSON each on standard output.

With `explain` it compiles nothing and writes what it would do (`kernelc.explanation`).

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
    """Compile or explain; the exit status."""
    explaining = arguments[:1] == ["explain"]
    folders = [Path(word) for word in arguments[explaining:]]
    if len(folders) != 2:
        print("usage: python -m kernelc [explain] IN_DIR OUT_DIR", file=sys.stderr)
        return int(Status.USAGE)
    in_dir, out_dir = folders
    os.umask(0o022)
    try:
        from kernelc import request  # here: what fails while these load is reported like any other error
        from kernelc.explain import explain_model
        from kernelc.pipeline import compile_model

        task = explain_model if explaining else compile_model
        task(request.read(in_dir), in_dir, out_dir, _tell)
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
