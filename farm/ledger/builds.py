"""Builds in the ledger: what was asked, and which run each cell (model x target) waits for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from farm.ledger import faults, rows
from farm.ledger.database import Database
from farm.ledger.rules import LIVE_STATES, WANTING, BuildState
from farm.ledger.tables import builds, cells, is_number, runs
from kernelfarm.errors import FarmError
from kernelfarm.nouns import RunState

GRACE_S = 3600.0
"""Far above what a build needs after its last compile, to sign and to write its bundles."""
_LIVE = frozenset(state.value for state in LIVE_STATES)
_BAD = frozenset({RunState.FAILED.value, RunState.CANCELLED.value})


@dataclass(frozen=True, slots=True)
class BuildRow:
    """One `farm build`. `request` is JSON of what was asked, times are seconds since 1970 UTC.

    `place` names the state folder, with its host, whose locks tell whether the build's process is there.
    """

    id: int
    request: str
    state: BuildState
    created_at: float
    ended_at: float | None
    place: str = ""


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell: its run, or cached without one, or the error that came before any run."""

    build_id: int
    position: int
    model: str
    target: str
    execution_key: str | None
    run_id: int | None
    cached: bool
    error: str | None

    def failure(self) -> FarmError | None:
        """The error of a cell that failed before it had a run."""
        return None if self.error is None else FarmError.from_json(json.loads(self.error))


class Builds:
    """Operations on builds and cells."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, request: Any, place: str = "") -> int:
        """Record a build that begins now; its number."""
        with self._database.write() as connection:
            values: dict[str, object] = {
                "request": json.dumps(request, sort_keys=True),
                "state": BuildState.RUNNING.value,
                "place": place,
            }
            values["created_at"] = self._database.now(connection)
            return int(connection.execute(builds.insert().values(**values).returning(builds.c.id)).scalar_one())

    def resume(self, number: int, place: str = "") -> None:
        """Record that a process at `place` goes on with a build; its cells are to be added anew. Raises RUN_UNKNOWN.

        It counts as begun now.
        """
        self.get(number)
        with self._database.write() as connection:
            now = self._database.now(connection)
            values = {"state": BuildState.RUNNING.value, "place": place, "created_at": now, "ended_at": None}
            connection.execute(cells.delete().where(cells.c.build_id == number))
            connection.execute(builds.update().where(builds.c.id == number).values(**values))

    def add_cells(self, cells_of_it: Sequence[CellRow]) -> None:
        """Record the cells of a build, in place of those that it had."""
        with self._database.write() as connection:
            for number in {row.build_id for row in cells_of_it}:
                connection.execute(cells.delete().where(cells.c.build_id == number))
            for row in cells_of_it:
                values = {name: getattr(row, name) for name in CellRow.__slots__}
                connection.execute(cells.insert().values(**values))

    def close(self, number: int, state: BuildState) -> list[int]:
        """Record how a build ended, unless it has; the ids of its runs that no other build wants, sorted.

        A build that was cancelled while its process wrote bundles stays cancelled.
        """
        with self._database.write() as connection:
            values = {"state": state.value, "ended_at": self._database.now(connection)}
            connection.execute(builds.update().where(builds.c.id == number, _is_wanting()).values(**values))
        own = {cell.run_id for cell in self.cells(number) if cell.run_id is not None}
        return sorted(own - self.wanted_elsewhere(number))

    def detach(self, number: int) -> None:
        """Record that no process waits for a build any more while its runs go on."""
        with self._database.write() as connection:
            one = sa.and_(builds.c.id == number, builds.c.state == BuildState.RUNNING.value)
            connection.execute(builds.update().where(one).values(state=BuildState.DETACHED.value))

    def settle(self, grace_s: float = GRACE_S) -> None:
        """Close the detached builds whose every run has ended.

        And the running ones whose last run ended more than `grace_s` seconds ago (without any run: that were begun so
        long ago): their process, on a host that nobody can ask, is gone. They count as interrupted.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            for row in connection.execute(builds.select().where(_is_wanting())).all():
                joined = cells.outerjoin(runs, cells.c.run_id == runs.c.id)
                query = sa.select(runs.c.state, runs.c.ended_at, cells.c.error).select_from(joined)
                found = connection.execute(query.where(cells.c.build_id == row.id)).all()
                if any(cell.state in _LIVE for cell in found):
                    continue
                if row.state == BuildState.DETACHED.value:
                    bad = any(cell.state in _BAD or cell.error is not None for cell in found)
                    state = BuildState.FAILED if bad else BuildState.DONE
                elif max([row.created_at, *(cell.ended_at or 0.0 for cell in found)]) < now - grace_s:
                    state = BuildState.INTERRUPTED
                else:
                    continue
                values = {"state": state.value, "ended_at": now}
                same = sa.and_(builds.c.id == row.id, builds.c.state == row.state)  # it may be resumed or closed now
                connection.execute(builds.update().where(same).values(**values))

    def get(self, number: int) -> BuildRow:
        """One build; raises RUN_UNKNOWN."""
        found = self._query(builds.select().where(builds.c.id == number)) if is_number(number) else []
        if not found:
            raise faults.unknown_build(number)
        return found[0]

    def running(self) -> list[BuildRow]:
        """The builds that a process waits for, or did until it died; oldest first."""
        return self._query(builds.select().where(builds.c.state == BuildState.RUNNING.value).order_by(builds.c.id))

    def wanting(self) -> list[BuildRow]:
        """The builds that still want their runs, oldest first."""
        return self._query(builds.select().where(_is_wanting()).order_by(builds.c.id))

    def recent(self, limit: int = 20) -> list[BuildRow]:
        """The newest builds, newest first."""
        return self._query(builds.select().order_by(builds.c.id.desc()).limit(limit))

    def cells(self, number: int) -> list[CellRow]:
        """The cells of a build in their order."""
        with self._database.read() as connection:
            query = cells.select().where(cells.c.build_id == number).order_by(cells.c.position)
            with rows.believing(f"a cell of build b{number}"):  # the driver refuses what is no truth value
                found = connection.execute(query).all()
        return [rows.read(CellRow, row._mapping, f"a cell of build b{number}") for row in found]

    def wanted_elsewhere(self, number: int | None = None) -> frozenset[int]:
        """Runs that a build wants, other than this one."""
        with self._database.read() as connection:
            query = (
                sa.select(cells.c.run_id)
                .join(builds, builds.c.id == cells.c.build_id)
                .where(_is_wanting(), cells.c.run_id.is_not(None))
            )
            if number is not None:
                query = query.where(builds.c.id != number)
            return frozenset(connection.execute(query).scalars())

    def _query(self, query: sa.Select[tuple[object, ...]]) -> list[BuildRow]:
        with self._database.read() as connection:
            return [rows.read(BuildRow, row._mapping, f"build b{row.id}") for row in connection.execute(query)]


def _is_wanting() -> sa.ColumnElement[bool]:
    return builds.c.state.in_([state.value for state in WANTING])
