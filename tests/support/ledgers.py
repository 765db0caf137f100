"""A clock by hand, and where a test's ledger lies: SQLite, and with the mark `services` PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(slots=True)
class Clock:
    """Seconds since 1970 that move only when the test says so."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A SQLite file that is not there yet, or the address of an empty PostgreSQL database."""
    if request.param == "sqlite":
        return tmp_path / "ledger.sqlite3"
    return str(request.getfixturevalue("postgres_server").database())
