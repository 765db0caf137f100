"""A real worker process whose compiles are those of `slow_compiler.py`; its marks lie in FARM_HOME/marks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from containers.process import ProcessRunner  # noqa: E402
from farm import config, worker  # noqa: E402

COMPILER = (sys.executable, "-I", str(ROOT / "tests/support/slow_compiler.py"))


def runner() -> ProcessRunner:
    """The slow compiler in a child process."""
    marks = {"KF_MARKS": str(config.load().home.root / "marks")}
    return ProcessRunner(program=COMPILER, extra_environment=marks)


if __name__ == "__main__":
    if "KF_BROKEN" in os.environ:
        raise SystemExit("this worker is broken")
    raise SystemExit(worker.run_process(runner=runner()))
