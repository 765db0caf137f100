"""Builds in a real database, SQLite or PostgreSQL: how they end, what they want, and what is remembered of old runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.ledger.builds import CellRow
from farm.ledger.history import Past
from farm.ledger.ledger import Ledger, opened
from farm.ledger.rules import BuildState, Reason
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState
from tests.support.ledgers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(ledger_address: Path | str, clock: Clock) -> Iterator[Ledger]:
    with opened(ledger_address, clock=clock) as made:
        yield made


def run(ledger: Ledger, key: str, *, target: str = "t", model_bytes: int = 100) -> int:
    made, _ = ledger.runs.submit(execution_key=key, recipe_key="r", action="{}", target=target, model_bytes=model_bytes)
    return made.id


def build(ledger: Ledger, *runs: int) -> int:
    number = ledger.builds.open({"models": []}, "host:/run")
    rows = [CellRow(number, place, "m", f"t{place}", "e", one, False, None) for place, one in enumerate(runs)]
    ledger.builds.add_cells(rows)
    return number


def finish(ledger: Ledger, number: int, seconds: float, clock: Clock) -> None:
    taken = ledger.runs.take("w", lease_s=1e6, among=[number])
    assert taken is not None
    clock.now += seconds
    ledger.runs.finish(taken[0], '{"p":1}')


def test_closing_a_build_names_the_runs_that_nobody_else_wants(ledger: Ledger) -> None:
    shared, own = run(ledger, "e1"), run(ledger, "e2")
    first, second = build(ledger, shared, own), build(ledger, shared)
    assert ledger.builds.close(first, BuildState.INTERRUPTED) == [own]
    assert ledger.builds.close(second, BuildState.DONE) == [shared]
    assert ledger.builds.get(first).state is BuildState.INTERRUPTED


def test_a_detached_build_still_wants_its_runs(ledger: Ledger) -> None:
    number = run(ledger, "e1")
    first, second = build(ledger, number), build(ledger, number)
    ledger.builds.detach(first)
    assert ledger.builds.close(second, BuildState.CANCELLED) == []
    assert [row.id for row in ledger.builds.wanting()] == [first]
    assert ledger.builds.running() == []


def test_a_cancelled_build_stays_cancelled(ledger: Ledger) -> None:
    number = build(ledger)
    ledger.builds.close(number, BuildState.CANCELLED)
    ledger.builds.close(number, BuildState.DONE)
    ledger.builds.detach(number)
    assert ledger.builds.get(number).state is BuildState.CANCELLED


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (RunState.QUEUED, BuildState.DETACHED),
        (RunState.DONE, BuildState.DONE),
        (RunState.CANCELLED, BuildState.FAILED),
    ],
)
def test_a_detached_build_ends_with_its_last_run(
    ledger: Ledger, clock: Clock, last: RunState, state: BuildState
) -> None:
    one, other = run(ledger, "e1"), run(ledger, "e2")
    number = build(ledger, one, other)
    ledger.builds.detach(number)
    finish(ledger, one, 1.0, clock)
    if last is RunState.DONE:
        finish(ledger, other, 1.0, clock)
    if last is RunState.CANCELLED:
        ledger.runs.cancel([other])
    ledger.builds.settle()
    assert ledger.builds.get(number).state is state


def test_a_detached_build_with_a_cell_that_had_no_run_has_failed(ledger: Ledger) -> None:
    number = ledger.builds.open({})
    ledger.builds.add_cells([CellRow(number, 0, "m", "t", None, None, False, '{"code":"FARM-E0201","what":"x"}')])
    ledger.builds.detach(number)
    ledger.builds.settle()
    assert ledger.builds.get(number).state is BuildState.FAILED


def test_a_resumed_build_runs_again_and_gets_new_cells(ledger: Ledger) -> None:
    number = build(ledger, run(ledger, "e1"))
    ledger.builds.close(number, BuildState.INTERRUPTED)
    ledger.builds.resume(number, "other:/run")
    row = ledger.builds.get(number)
    assert (row.state, row.place, row.ended_at) == (BuildState.RUNNING, "other:/run", None)
    assert ledger.builds.cells(number) == []


def test_a_build_that_is_not_there_cannot_be_resumed(ledger: Ledger) -> None:
    with pytest.raises(FarmError) as caught:
        ledger.builds.resume(7)
    assert caught.value.code is Code.RUN_UNKNOWN


def test_past_runs_of_a_target_newest_first(ledger: Ledger, clock: Clock) -> None:
    finish(ledger, run(ledger, "e1", model_bytes=100), 3.0, clock)
    finish(ledger, run(ledger, "e2", target="other"), 4.0, clock)
    finish(ledger, run(ledger, "e3", model_bytes=200), 5.0, clock)
    run(ledger, "e4")
    assert ledger.history.past("t") == [Past(200, 5.0), Past(100, 3.0)]


def test_needed_are_live_runs_and_what_the_cache_holds(ledger: Ledger, clock: Clock) -> None:
    finish(ledger, run(ledger, "cached"), 1.0, clock)
    run(ledger, "live")
    ledger.runs.cancel([run(ledger, "gone")], Reason.UNWANTED)
    assert sorted(ledger.history.needed()) == [("cached", "{}", '{"p":1}'), ("live", "{}", None)]


def test_what_is_old(ledger: Ledger, clock: Clock) -> None:
    finish(ledger, run(ledger, "e1"), 1.0, clock)
    clock.now += 100.0
    finish(ledger, run(ledger, "e2"), 1.0, clock)
    assert ledger.history.stale(clock.now - 50.0) == ["e1"]
    assert ledger.history.ended_before(clock.now - 50.0) == [1]


@pytest.mark.parametrize("number", [0, 2**31 - 1, 2**31, 2**63, 10**18])
def test_a_number_that_no_build_and_no_run_has_is_unknown_however_large(ledger: Ledger, number: int) -> None:
    for ask in (ledger.builds.get, ledger.runs.get, lambda one: ledger.runs.cancel([one])):
        with pytest.raises(FarmError) as caught:
            ask(number)
        assert caught.value.code is Code.RUN_UNKNOWN
    assert ledger.runs.attempts(number) == []


def test_a_running_build_whose_process_nobody_can_ask_is_closed_an_hour_after_its_last_run(
    ledger: Ledger, clock: Clock
) -> None:
    one = run(ledger, "e1")
    number, empty = build(ledger, one), build(ledger)
    # However long its run takes, it is waited for
    clock.now += 7000.0
    ledger.builds.settle()
    assert ledger.builds.get(number).state is BuildState.RUNNING
    assert ledger.builds.get(empty).state is BuildState.INTERRUPTED
    # And afterwards it has an hour to write its bundles
    finish(ledger, one, 10.0, clock)
    clock.now += 3590.0
    ledger.builds.settle()
    assert ledger.builds.get(number).state is BuildState.RUNNING
    clock.now += 20.0
    ledger.builds.settle()
    assert ledger.builds.get(number).state is BuildState.INTERRUPTED
    # Whoever resumes it has as much time again
    ledger.builds.resume(number, "host:/run")
    ledger.builds.settle()
    assert ledger.builds.get(number).state is BuildState.RUNNING
