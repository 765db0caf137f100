"""A real worker process behind a gate whose compiles are those of `slow_compiler.py`; its marks lie in KF_MARKS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from containers.process import ProcessRunner  # noqa: E402
from farm.gate import host  # noqa: E402
from farm.gate.messages import Offer  # noqa: E402
from tests.support import farms  # noqa: E402
from tests.support.slow_worker import COMPILER  # noqa: E402

if __name__ == "__main__":
    runner = ProcessRunner(program=COMPILER, extra_environment={"KF_MARKS": os.environ["KF_MARKS"]})
    raise SystemExit(host.run_process(runner=runner, offer=Offer.of(farms.BOX)))
