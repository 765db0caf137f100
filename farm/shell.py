"""`farm shell`: a person in the place of a compile, to see what it saw."""

from __future__ import annotations

from collections.abc import Sequence

from farm import runners, worker
from farm.actions import Job
from farm.config import Config
from farm.ledger.ledger import Ledger
from kernelfarm import canonical, files
from kernelfarm.store import ContentStore


def enter(settings: Config, ledger: Ledger, run: int, words: Sequence[str] = ()) -> int:
    """Run `words`, else a shell, where the compile of a run ran, over its inputs; the exit status.

    Nothing that it writes is kept. Raises `FarmError` RUN_UNKNOWN, STORE_MISSING when the inputs were removed,
    IMAGE_MISSING, RUNNER_UNAVAILABLE.
    """
    row = ledger.runs.get(run)
    job = canonical.decode(Job, row.action.encode(), name=f"the job of run r{run}")
    chosen = runners.of(settings.home, job.action.execution)
    with files.coded("a shell could not be prepared", settings.home.cache):
        settings.home.create()
        with files.temp_folder(settings.home.cache) as scratch:
            worker.prepare(scratch / "in", job, ContentStore(settings.home.store), 1)
            return chosen.shell(scratch, words, settings.limits)
