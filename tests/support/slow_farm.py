"""The command line `farm` with the slow compiler: `python slow_farm.py build cls.onnx -t x86-64-v3`; see `Marks`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from farm import build, scheduler  # noqa: E402
from farm.actions import Toolbox  # noqa: E402
from farm.cli import main  # noqa: E402
from farm.config import Config  # noqa: E402
from farm.scheduler import Session  # noqa: E402
from kernelfarm.nouns import Execution  # noqa: E402
from tests.support import farms  # noqa: E402

_session = scheduler.session


@contextmanager
def session(settings: Config) -> Iterator[Session]:
    """The farm's state, with slow workers."""
    with _session(settings) as farm:
        yield replace(farm, worker=farms.SLOW_WORKER)


def toolbox(execution: Execution, tools: object = None) -> Toolbox:
    """A toolbox for any runner, whatever its tools."""
    del tools
    return replace(farms.BOX, execution=execution)


if __name__ == "__main__":
    scheduler.session = session
    build.toolbox = toolbox
    if "worker" in sys.argv:
        from farm import station

        station.serve = partial(station.serve, argv=farms.SLOW_WORKER)
    raise SystemExit(main.main())
