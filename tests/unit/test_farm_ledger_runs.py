"""Runs, attempts and the execution cache in a real database; FARM_TEST_LEDGER_URL names one, else SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.ledger.ledger import Ledger
from farm.ledger.rules import Lease, Outcome, Reason
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState
from tests.support import farms
from tests.support.farms import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    with farms.ledger(tmp_path, clock) as made:
        yield made


def ask(ledger: Ledger, key: str = "e1", salt: str = "") -> int:
    return ledger.runs.submit(execution_key=key, recipe_key="r1", action="{}", salt=salt)[0].id


def take(ledger: Ledger, number: int, worker: str = "w1") -> Lease:
    taken = ledger.runs.take(worker, lease_s=20.0, among=[number])
    assert taken is not None
    return taken[0]


def test_the_second_asker_joins_the_run_of_the_first(ledger: Ledger) -> None:
    first, joined_first = ledger.runs.submit(execution_key="e1", recipe_key="r1", action="{}")
    second, joined_second = ledger.runs.submit(execution_key="e1", recipe_key="r1", action="{}")
    assert (joined_first, joined_second) == (False, True)
    assert second.id == first.id


def test_another_salt_is_another_run(ledger: Ledger) -> None:
    assert ask(ledger, "e1") != ask(ledger, "e1", salt="rebuild")


def test_after_the_end_the_same_key_makes_a_new_run(ledger: Ledger) -> None:
    first = ask(ledger)
    ledger.runs.finish(take(ledger, first), "{}")
    assert ask(ledger) != first


def test_a_run_is_taken_by_one_worker_only(ledger: Ledger) -> None:
    number = ask(ledger)
    lease = take(ledger, number)
    assert lease == Lease(number, 1, "w1", 1_000_020.0)
    assert ledger.runs.take("w2", lease_s=20.0, among=[number]) is None


def test_the_oldest_run_is_taken_first(ledger: Ledger) -> None:
    older, newer = ask(ledger, "e1"), ask(ledger, "e2")
    taken = ledger.runs.take("w1", lease_s=20.0, among=[newer, older])
    assert taken is not None
    assert taken[0].run_id == older


def test_a_worker_takes_only_the_runs_of_its_build(ledger: Ledger) -> None:
    ask(ledger, "e1")
    wanted = ask(ledger, "e2")
    taken = ledger.runs.take("w1", lease_s=20.0, among=[wanted])
    assert taken is not None
    assert taken[0].run_id == wanted


def test_a_finished_run_is_in_the_cache(ledger: Ledger, clock: Clock) -> None:
    number = ask(ledger)
    lease = take(ledger, number)
    clock.now += 3.5
    row = ledger.runs.finish(lease, '{"payload":1}')
    assert (row.status.state, row.payload, row.seconds) == (RunState.DONE, '{"payload":1}', 3.5)
    cached = ledger.runs.cached("e1")
    assert cached is not None
    assert (cached.payload, cached.run_id, cached.recipe_key) == ('{"payload":1}', number, "r1")
    assert [item.outcome for item in ledger.runs.attempts(number)] == [Outcome.DONE]


def test_a_stale_worker_gets_nothing_in(ledger: Ledger, clock: Clock) -> None:
    # Given a worker whose lease ran out and whose run another one took
    number = ask(ledger)
    stale = take(ledger, number, "w1")
    clock.now += 21.0
    fresh = take(ledger, number, "w2")
    # When the first comes back with a result, an error, progress, or wants to give it back
    for late in (
        lambda: ledger.runs.finish(stale, '{"stale":1}'),
        lambda: ledger.runs.fail(stale, Reason.COMPILE_ERROR, FarmError(Code.COMPILE_FAILED, "late")),
        lambda: ledger.runs.beat(stale, lease_s=99.0, progress=("late", 9, 9)),
        lambda: ledger.runs.release(stale),
    ):
        with pytest.raises(FarmError) as caught:
            late()
        assert caught.value.code is Code.LEASE_LOST
    # Then nothing of it is in the ledger, and the second one's result is
    assert ledger.runs.cached("e1") is None
    assert ledger.runs.get(number).stage == ""
    assert ledger.runs.finish(fresh, '{"fresh":1}').payload == '{"fresh":1}'
    outcomes = [(item.worker, item.outcome) for item in ledger.runs.attempts(number)]
    assert outcomes == [("w1", Outcome.LEASE_EXPIRED), ("w2", Outcome.DONE)]


def test_a_run_that_kills_three_workers_is_given_up(ledger: Ledger, clock: Clock) -> None:
    number = ask(ledger)
    for worker in ("w1", "w2", "w3"):
        take(ledger, number, worker)
        clock.now += 21.0
    assert ledger.runs.take("w4", lease_s=20.0, among=[number]) is None
    row = ledger.runs.get(number)
    assert (row.status.state, row.status.reason) == (RunState.FAILED, Reason.ATTEMPTS_EXHAUSTED)
    failure = row.failure()
    assert failure is not None
    assert failure.code is Code.ATTEMPTS_EXHAUSTED


def test_heartbeats_carry_progress_and_keep_the_lease(ledger: Ledger, clock: Clock) -> None:
    number = ask(ledger)
    lease = take(ledger, number)
    clock.now += 15.0
    assert ledger.runs.beat(lease, lease_s=20.0, progress=("group", 12, 71)).until == clock.now + 20.0
    clock.now += 15.0
    row = ledger.runs.get(number)
    assert (row.stage, row.done, row.total) == ("group", 12, 71)
    assert ledger.runs.take("w2", lease_s=20.0, among=[number]) is None


def test_another_payload_for_the_same_key_is_refused_and_both_are_named(ledger: Ledger) -> None:
    ledger.runs.finish(take(ledger, ask(ledger)), '{"p":1}')
    again = ask(ledger)
    with pytest.raises(FarmError) as caught:
        ledger.runs.finish(take(ledger, again), '{"p":2}')
    assert caught.value.code is Code.PAYLOAD_DIFFERS
    assert (caught.value.detail["known"], caught.value.detail["found"]) == ({"p": 1}, {"p": 2})
    cached = ledger.runs.cached("e1")
    assert cached is not None
    assert cached.payload == '{"p":1}'
    assert ledger.runs.get(again).status.reason is Reason.PAYLOAD_DIFFERS


def test_a_failed_run_keeps_its_error(ledger: Ledger) -> None:
    number = ask(ledger)
    error = FarmError(Code.COMPILE_FAILED, "no", "because", "Do this.", {"node": "n1"})
    ledger.runs.fail(take(ledger, number), Reason.COMPILE_ERROR, error)
    failure = ledger.runs.get(number).failure()
    assert failure is not None
    assert failure.to_json() == error.to_json()
    assert ledger.runs.cached("e1") is None


def test_an_interrupted_run_is_free_for_the_next_worker_at_once(ledger: Ledger) -> None:
    number = ask(ledger)
    ledger.runs.release(take(ledger, number))
    assert take(ledger, number, "w2").fencing == 2
    assert [item.outcome for item in ledger.runs.attempts(number)] == [Outcome.INTERRUPTED, None]


def test_cancel_touches_queued_runs_only(ledger: Ledger) -> None:
    queued, running = ask(ledger, "e1"), ask(ledger, "e2")
    take(ledger, running)
    ledger.runs.cancel([queued, running])
    states = [row.status.state for row in ledger.runs.select([queued, running])]
    assert states == [RunState.CANCELLED, RunState.RUNNING]


def test_an_unknown_run_is_named(ledger: Ledger) -> None:
    with pytest.raises(FarmError) as caught:
        ledger.runs.get(99)
    assert caught.value.code is Code.RUN_UNKNOWN
    assert "r99" in caught.value.what


def test_a_run_that_ended_since_the_caller_looked_is_not_asked_for_again(ledger: Ledger) -> None:
    asked = {"execution_key": "e1", "recipe_key": "r1", "action": "{}"}
    first = ledger.runs.submit_unless_cached(**asked)
    assert first is not None
    assert ledger.runs.submit_unless_cached(**asked) == (first[0], True)

    ledger.runs.finish(take(ledger, first[0].id), "{}")

    assert ledger.runs.submit_unless_cached(**asked) is None
    assert ledger.runs.submit(**asked)[1] is False  # as --no-cache wants it


@pytest.mark.skipif("FARM_TEST_LEDGER_URL" in os.environ, reason="PostgreSQL keeps its own checksums")
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET state = 'runninh'",
        "UPDATE runs SET attempts = 'x'",
        "UPDATE runs SET created_at = 1e300",
        "UPDATE runs SET error = '{'",
        "UPDATE runs SET execution_key = x'ff'",
    ],
)
def test_a_value_that_the_farm_did_not_write_is_damage_and_names_the_run(
    ledger: Ledger, tmp_path: Path, damage: str
) -> None:
    number = ask(ledger)
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(damage)

    with pytest.raises(FarmError) as caught:
        ledger.runs.get(number)

    assert caught.value.code is Code.LEDGER_CORRUPT
    assert f"r{number}" in caught.value.why
