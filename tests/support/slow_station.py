"""A real `farm worker` with slow workers: `python slow_station.py HOME BROKER SLOTS`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from farm import config, station  # noqa: E402
from farm.cli.worker import say  # noqa: E402
from kernelfarm.errors import FarmError  # noqa: E402
from tests.support import farms  # noqa: E402


def main() -> int:
    """Serve until told to stop; the exit status of the command."""
    os.environ["FARM_HOME"] = sys.argv[1]
    try:
        station.serve(config.load(), sys.argv[2], slots=int(sys.argv[3]), argv=farms.SLOW_WORKER, say=say)
    except FarmError as error:
        say(str(error))
        return int(error.status)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
