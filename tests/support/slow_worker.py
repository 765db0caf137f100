"""A real worker process whose compiles are those of `slow_compiler.py`; its marks lie in FARM_HOME/marks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from containers import process  # noqa: E402
from containers.process import Progress  # noqa: E402
from containers.result import Accepted  # noqa: E402
from farm import config, worker  # noqa: E402
from kernelfarm.child import ChildResult  # noqa: E402

COMPILER = (sys.executable, "-I", str(ROOT / "tests/support/slow_compiler.py"))


def compile_in(scratch: Path, log: Path, tell: Callable[[Progress], None]) -> tuple[Accepted, ChildResult]:
    """A runner with the limits of the environment."""
    settings = config.load()
    marks = {"KF_MARKS": str(settings.home.root / "marks")}
    limits = settings.limits
    return process.compile_in(
        scratch, log_path=log, limits=limits, on_progress=tell, program=COMPILER, extra_environment=marks
    )


if __name__ == "__main__":
    if "KF_BROKEN" in os.environ:
        raise SystemExit("this worker is broken")
    raise SystemExit(worker.run_process(runner=compile_in))
