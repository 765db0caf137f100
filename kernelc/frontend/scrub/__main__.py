"""The child that scrubs a foreign model: `python -I -m kernelc.frontend.scrub FOLDER`.

FOLDER holds model.onnx and `WORDS`, a list of words to scrub. It gets `RESULT`, the scrubbed model, and `REPORT`; or
error.json, with the exit status of its code.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

from kernelfarm import canonical
from kernelfarm.errors import FarmError, Status


def main(arguments: list[str]) -> int:
    """Scrub; the exit status."""
    if len(arguments) != 1:
        print("usage: python -m kernelc.frontend.scrub FOLDER", file=sys.stderr)
        return int(Status.USAGE)
    folder = Path(arguments[0])
    os.umask(0o077)
    try:
        _scrub(folder)
    except FarmError as error:
        (folder / "error.json").write_bytes(canonical.dumps(error.to_json()))
        return int(error.status)
    return int(Status.DONE)


def _scrub(folder: Path) -> None:
    from kernelc.frontend.read import read_model  # here: what fails while these load is an error like any other
    from kernelc.frontend.scrub import rules
    from kernelc.frontend.scrub.rewrite import scrub
    from kernelc.frontend.scrub.secrets import Secrets

    words = canonical.loads((folder / rules.WORDS).read_bytes(), name=rules.WORDS)
    model = read_model(folder / "model.onnx")
    made = scrub(model, Secrets.of(words))
    del model
    report = {
        "schema": "scrub-report/1",
        "removed": dict(made.removed),
        "renamed": [asdict(item) for item in made.renamed],
        "ranges": [asdict(item) for item in made.ranges],
    }
    (folder / rules.RESULT).write_bytes(made.model.SerializeToString(deterministic=True))
    (folder / rules.REPORT).write_bytes(canonical.dumps(report))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
