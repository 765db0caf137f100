"""Why a run waits and how long a build will take, as pure rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm import forecast
from farm.forecast import Wait, Waiting
from farm.ledger import rules
from farm.ledger.history import Past
from farm.ledger.nouns import RunRow
from farm.ledger.rules import Reason, RunStatus
from kernelfarm.nouns import RunState

NOW = 1000.0


def run(number: int, state: RunState = RunState.QUEUED, *, started_at: float | None = None) -> RunRow:
    status = RunStatus(number, state, Reason.ASKED)
    return RunRow(status, f"e{number}", "r", "", "{}", "", 0, 0, None, None, 900.0, started_at, None)


def test_nobody_serves_the_queue() -> None:
    assert forecast.waiting(run(1), [run(1)], slots=0, now=NOW) == Waiting(Wait.NO_WORKER)


def test_a_run_that_does_not_wait_has_no_reason() -> None:
    assert forecast.waiting(run(1, RunState.RUNNING), [], slots=1, now=NOW) is None


def test_older_runs_come_first() -> None:
    live = [run(1, RunState.RUNNING), run(2), run(3), run(4)]
    assert forecast.waiting(live[2], live, slots=1, now=NOW) == Waiting(Wait.BEHIND, ahead=1)


def test_all_workers_are_busy() -> None:
    live = [run(1, RunState.RUNNING), run(2)]
    found = forecast.waiting(live[1], live, slots=1, now=NOW)
    assert found is not None
    assert (found, found.describe()) == (Waiting(Wait.BEHIND, ahead=0), "all workers are busy")


def test_a_free_worker_is_about_to_take_it() -> None:
    live = [run(1, RunState.RUNNING), run(2)]
    assert forecast.waiting(live[1], live, slots=2, now=NOW) == Waiting(Wait.NEXT)


def test_a_lost_run_pauses() -> None:
    taken = rules.take(run(1).status, "w", NOW - 1, 20.0)
    lost = replace(run(1), status=rules.lose(taken, 1, NOW - 1))
    found = forecast.waiting(lost, [lost], slots=2, now=NOW)
    assert found == Waiting(Wait.PAUSE, seconds=4.0)
    assert found.describe() == "its worker was lost; again in 4 s"


@pytest.mark.parametrize(
    ("past", "seconds"),
    [
        ([], None),
        ([Past(1000, 30.0), Past(900, 10.0), Past(1100, 20.0)], 20.0),
        ([Past(100_000, 900.0)], None),
        ([Past(1999, 8.0), Past(2001, 90.0), Past(500, 10.0), Past(499, 90.0)], 9.0),
        ([*[Past(1000, 5.0)] * 20, *[Past(1000, 500.0)] * 50], 5.0),
    ],
    ids=["nothing", "median", "another-size", "up-to-twice-as-large", "the-newest-twenty"],
)
def test_an_estimate_is_the_median_of_the_newest_of_the_like(past: list[Past], seconds: float | None) -> None:
    assert forecast.estimate(past, 1000) == seconds


def test_what_is_left_of_a_run() -> None:
    assert forecast.left(run(1), None, NOW) is None
    assert forecast.left(run(1), 30.0, NOW) == 30.0
    assert forecast.left(run(1, RunState.RUNNING, started_at=990.0), 30.0, NOW) == 20.0
    assert forecast.left(run(1, RunState.RUNNING, started_at=900.0), 30.0, NOW) == 1.0  # late: nearly done


@pytest.mark.parametrize(
    ("running", "queued", "slots", "seconds"),
    [
        ([], [], 2, 0.0),
        ([7.0, 3.0], [], 2, 7.0),
        ([], [5.0, 5.0, 5.0], 1, 15.0),
        ([], [5.0, 5.0, 5.0], 2, 10.0),
        ([4.0], [5.0, 1.0], 2, 5.0),
        ([4.0, 6.0], [5.0], 2, 9.0),
        ([], [5.0], 0, 5.0),
    ],
)
def test_the_whole_takes_as_long_as_its_last_run(
    running: list[float], queued: list[float], slots: int, seconds: float
) -> None:
    assert forecast.makespan(running, queued, slots) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (8.4, "8 s"), (99.0, "99 s"), (100.0, "2 min"), (181.0, "3 min"), (7500.0, "2 h 5 min")],
)
def test_a_length_of_time_for_people(seconds: float, text: str) -> None:
    assert forecast.spell(seconds) == text
