"""The ledger as the rest of the farm sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farm.ledger.builds import Builds
from farm.ledger.database import Clock, Database
from farm.ledger.history import History
from farm.ledger.runs import Runs
from farm.ledger.workers import Workers


@dataclass(frozen=True, slots=True)
class Ledger:
    """Builds, runs and workers over one database."""

    database: Database
    runs: Runs
    builds: Builds
    workers: Workers
    history: History


@contextmanager
def opened(address: Path | str, *, clock: Clock | None = None) -> Iterator[Ledger]:
    """The ledger in a SQLite file or at an address, brought to the newest revision. Raises LEDGER_* or 07xx."""
    database = Database(address, clock=clock)
    try:
        database.migrate()
        yield Ledger(database, Runs(database), Builds(database), Workers(database), History(database))
    finally:
        database.close()
