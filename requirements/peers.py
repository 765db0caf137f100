"""The runtimes that benchmarks compare with, and torch, each in an environment below build/peers.

    python requirements/peers.py NAME...      onnxruntime, openvino, iree, tvm; export: torch, to write models

Each is locked in requirements/peers/NAME.txt (from NAME.in, by `make lock`). Exit status 3 when one cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

import separate

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements" / "peers"
PLACES = ROOT / "build" / "peers"
PROOFS = {
    "export": "import onnx, torch",
    "iree": "import iree.compiler, iree.runtime",
    "onnxruntime": "import onnxruntime",
    "openvino": "import openvino",
    "tvm": "import tvm",
}


def main(names: list[str]) -> None:
    """Make the environments named."""
    for name in names:
        if name not in PROOFS:
            separate.fail(name, f"there are {', '.join(PROOFS)}")
        lock = LOCKS / f"{name}.txt"
        if separate.ensure(PLACES / name, lock, "lock", separate.digest(lock), proof=("-c", PROOFS[name])):
            print(f"build/peers/{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
