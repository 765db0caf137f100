"""A real worker process with the slow compiler, which notes the seconds inside the runner in FARM_HOME/marks."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from farm import config, worker  # noqa: E402
from tests.support import slow_worker  # noqa: E402


class Timed:
    """The slow compiler's runner with a watch."""

    def __init__(self) -> None:
        self._runner = slow_worker.runner()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def compile_in(self, scratch: Path, **arguments: Any) -> Any:
        """As the runner's own."""
        began = time.perf_counter()
        try:
            return self._runner.compile_in(scratch, **arguments)
        finally:
            marks = config.load().home.root / "marks"
            (marks / f"seconds-r{arguments['tag'].run}").write_text(str(time.perf_counter() - began))


if __name__ == "__main__":
    raise SystemExit(worker.run_process(runner=Timed()))
