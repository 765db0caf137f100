"""A real worker process behind a gate that compiles in bubblewrap over the small image.

KF_PROGRAM names the Python program that stands in for the compiler inside.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from containers.bubblewrap import BubblewrapRunner  # noqa: E402
from farm.gate import host  # noqa: E402
from farm.gate.messages import Offer  # noqa: E402
from tests.support import farms, sandboxes  # noqa: E402


def runner(program: str) -> BubblewrapRunner:
    """The sandbox around a program."""
    image = sandboxes.image()
    return BubblewrapRunner(image, ROOT / "kernelfarm", (image.python, "-s", "-P", "-c", program))


if __name__ == "__main__":
    chosen = runner(Path(os.environ["KF_PROGRAM"]).read_text())
    offer = Offer.of(replace(farms.BOX, execution=chosen.execution()))
    raise SystemExit(host.run_process(runner=chosen, offer=offer))
