"""What a build can tell beyond the state of its cells, from a real ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from farm.forecast import Wait
from farm.ledger.nouns import RunRow
from farm.ledger.rules import Lease
from farm.outlook import Outlook
from farm.scheduler import Cell, Session
from tests.support import farms


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Session]:
    with farms.session(tmp_path / "home") as made:
        yield made


def served(farm: Session) -> Session:
    return replace(farm, settings=replace(farm.settings, broker="redis://localhost:1/0"))


def cell(farm: Session, data: bytes, on: str = "x86-64-v3") -> Cell:
    job = farms.job(farm.store, data=data, on=on)
    row, _ = farm.ledger.runs.submit(
        execution_key=job.action.execution_key, recipe_key="r", action="{}", target=on, model_bytes=len(data)
    )
    return Cell(job.model.name, on, job, run=row)


def again(farm: Session, shown: Cell) -> Cell:
    assert shown.run is not None
    return replace(shown, run=farm.ledger.runs.get(shown.run.id))


def take(farm: Session, shown: Cell) -> RunRow:
    assert shown.run is not None
    taken = farm.ledger.runs.take("w", lease_s=60.0, among=[shown.run.id])
    assert taken is not None
    return taken[1]


def past(farm: Session, seconds: float) -> None:
    """A run of a like model that took so long."""
    shown = cell(farm, b"past")
    row = take(farm, shown)
    farm.ledger.runs.finish(_lease(row), "{}")
    with farm.ledger.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET started_at = ended_at - {seconds} WHERE id = {row.id}")


def _lease(row: RunRow) -> Lease:
    return Lease(row.id, row.status.fencing, "w", 0.0)


def test_with_a_broker_and_no_worker_nothing_moves(farm: Session) -> None:
    past(farm, 10.0)
    shown = cell(farm, b"new!")
    seen = Outlook(served(farm), slots=2).look([shown])
    assert [why.reason for why in seen.waiting.values()] == [Wait.NO_WORKER]
    assert seen.left_s is None


def test_the_time_that_is_left_counts_what_comes_first(farm: Session) -> None:
    # Given past compiles of the like of ten seconds, and one worker
    past(farm, 10.0)
    farm.ledger.workers.seen("w", slots=1)
    # When another build's run is before that of this build
    cell(farm, b"one!")
    shown = cell(farm, b"two!")
    seen = Outlook(served(farm), slots=2).look([shown])
    # Then this build takes twenty seconds
    assert [(why.reason, why.ahead) for why in seen.waiting.values()] == [(Wait.BEHIND, 1)]
    assert seen.left_s == pytest.approx(20.0)


def test_a_worker_that_drains_takes_nothing(farm: Session) -> None:
    farm.ledger.workers.seen("w", slots=4, draining=True)
    seen = Outlook(served(farm), slots=2).look([cell(farm, b"new!")])
    assert [why.reason for why in seen.waiting.values()] == [Wait.NO_WORKER]


def test_workers_of_the_builds_own_leave_other_builds_alone(farm: Session) -> None:
    past(farm, 10.0)
    cell(farm, b"one!")
    shown = [cell(farm, b"two!"), cell(farm, b"thr!")]
    seen = Outlook(farm, slots=1).look(shown)
    assert [(why.reason, why.ahead) for why in seen.waiting.values()] == [(Wait.NEXT, 0), (Wait.BEHIND, 1)]
    assert seen.left_s == pytest.approx(20.0)


def test_without_a_past_of_the_like_the_time_is_not_known(farm: Session) -> None:
    past(farm, 10.0)
    seen = Outlook(farm, slots=1).look([cell(farm, b"two!"), cell(farm, b"x" * 100)])
    assert seen.left_s is None


def test_what_has_ended_needs_no_look(farm: Session) -> None:
    shown = cell(farm, b"new!")
    farm.ledger.runs.cancel([1])
    assert Outlook(farm, slots=1).look([again(farm, shown)]).waiting == {}
