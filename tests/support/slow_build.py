"""A real build process with slow workers: `python slow_build.py HOME TARGET...`; prints the cells as JSON.

KF_MODELS is how many models it has, one without it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from farm import config, scheduler  # noqa: E402
from tests.support import farms  # noqa: E402


def main() -> None:
    """Compile the test models for each TARGET."""
    os.environ["FARM_HOME"] = sys.argv[1]
    with scheduler.session(config.load()) as opened:
        farm = replace(opened, worker=farms.SLOW_WORKER)
        models = [f"a model{number or ''}" for number in range(int(os.environ.get("KF_MODELS", "1")))]
        jobs = [farms.job(farm.store, data=data.encode(), on=name) for data in models for name in sys.argv[2:]]
        cells = scheduler.compile_jobs(farm, jobs, workers=2)
    found = [
        {
            "target": cell.target,
            "state": cell.state.value,
            "cached": cell.cached is not None,
            "run": None if cell.run is None else cell.run.id,
            "error": None if cell.error is None else cell.error.code.name,
        }
        for cell in cells
    ]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
