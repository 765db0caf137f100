"""A process that compiles for ever in a sandbox: `python sandbox_worker.py docker|bubblewrap HOME [ENGINE]`.

It prints the error's code when the compile ends, so that a test sees how.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from containers.bubblewrap import BubblewrapRunner
from containers.docker import DockerRunner
from containers.runner import Limits, Tag
from kernelfarm import files
from kernelfarm.errors import FarmError
from tests.support import sandboxes

SLEEP = "import os, time; open('out/started', 'w').write('x'); time.sleep(600)"


def main() -> None:
    """Compile in the home's scratch folder."""
    kind, home = sys.argv[1], Path(sys.argv[2])
    image, code = sandboxes.image(), sandboxes.ROOT / "kernelfarm"
    program = (image.python, "-I", "-c", SLEEP)
    runner = (
        DockerRunner(image, code, home, sys.argv[3], program)
        if kind == "docker"
        else BubblewrapRunner(image, code, program)
    )
    with files.temp_folder(home) as scratch:
        sandboxes.fill(scratch / "in")
        try:
            runner.compile_in(scratch, log_path=scratch / "log", limits=Limits(wall_s=500), tag=Tag(7, 3))
        except FarmError as error:
            print(error.code.name, flush=True)


if __name__ == "__main__":
    main()
