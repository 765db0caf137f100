"""Runs, attempts, the execution cache and workers in a real database, SQLite or PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from farm.ledger.ledger import Ledger, opened
from farm.ledger.nouns import Seat
from farm.ledger.rules import Lease, Outcome, Reason
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


def test_a_cancel_ends_queued_runs_and_tells_the_worker_of_a_running_one(ledger: Ledger) -> None:
    queued, running = ask(ledger, "e1"), ask(ledger, "e2")
    lease = take(ledger, running)
    assert not ledger.runs.beat(lease, lease_s=20.0).cancel_asked
    cancelled = ledger.runs.cancel([queued, running])
    assert [row.status.state for row in cancelled] == [RunState.CANCELLED, RunState.RUNNING]
    assert ledger.runs.beat(lease, lease_s=20.0).cancel_asked
    ledger.runs.release(lease)
    row = ledger.runs.get(running)
    assert (row.status.state, row.status.reason) == (RunState.CANCELLED, Reason.CANCEL_ASKED)
    assert [item.outcome for item in ledger.runs.attempts(running)] == [Outcome.CANCELLED]
    assert row.ended_at is not None


def test_who_joins_a_run_that_is_being_cancelled_wants_it_again(ledger: Ledger) -> None:
    number = ask(ledger)
    lease = take(ledger, number)
    ledger.runs.cancel([number])
    run, joined = ledger.runs.submit(execution_key="e1", recipe_key="r1", action="{}")
    assert (joined, run.status.cancel_asked) == (True, False)
    assert not ledger.runs.beat(lease, lease_s=20.0).cancel_asked


def test_a_run_that_is_being_cancelled_ends_without_a_worker(ledger: Ledger, clock: Clock) -> None:
    number = ask(ledger)
    take(ledger, number)
    ledger.runs.cancel([number])
    assert ledger.runs.takable(10, lease_s=20.0) == []
    assert ledger.runs.get(number).status.state is RunState.RUNNING
    clock.now += 21.0
    assert ledger.runs.takable(10, lease_s=20.0) == []
    row = ledger.runs.get(number)
    assert (row.status.state, row.ended_at) == (RunState.CANCELLED, clock.now)
    assert [item.outcome for item in ledger.runs.attempts(number)] == [Outcome.LEASE_EXPIRED]


def test_what_can_be_taken_wants_a_hint_until_it_got_one(ledger: Ledger, clock: Clock) -> None:
    first, held, third = ask(ledger, "e1"), ask(ledger, "e2"), ask(ledger, "e3")
    lease = take(ledger, held)
    assert ledger.runs.takable(1, lease_s=20.0, quiet_s=5.0) == [(first, "e1")]
    assert ledger.runs.takable(9, lease_s=20.0, quiet_s=5.0) == [(third, "e3")]
    assert ledger.runs.takable(9, lease_s=20.0, quiet_s=5.0) == []
    clock.now += 5.1
    assert ledger.runs.takable(9, lease_s=20.0, quiet_s=5.0) == [(first, "e1"), (third, "e3")]
    clock.now = lease.until
    assert ledger.runs.takable(9, lease_s=20.0, quiet_s=5.0) == [(first, "e1"), (held, "e2"), (third, "e3")]


def test_a_run_given_up_while_no_worker_is_up_says_so(ledger: Ledger, clock: Clock) -> None:
    number = ask(ledger)
    for worker in ("w1", "w2", "w3"):
        take(ledger, number, worker)
        clock.now += 21.0
    assert ledger.runs.takable(10, lease_s=20.0) == []
    failure = ledger.runs.get(number).failure()
    assert failure is not None
    assert failure.code is Code.ATTEMPTS_EXHAUSTED


def test_the_live_runs_of_a_key_are_one_for_each_salt(ledger: Ledger) -> None:
    plain, salted, other = ask(ledger, "e1"), ask(ledger, "e1", "no-cache"), ask(ledger, "e2")
    assert [row.id for row in ledger.runs.by_key("e1")] == [plain, salted]
    ledger.runs.finish(take(ledger, plain), "{}")
    assert [row.id for row in ledger.runs.by_key("e1")] == [salted]
    assert [row.id for row in ledger.runs.live()] == [salted, other]


def test_a_run_that_lost_its_engine_comes_back_after_a_pause_and_is_given_up_at_last(
    ledger: Ledger, clock: Clock
) -> None:
    number = ask(ledger)
    gone = FarmError(Code.MACHINE_LACKS, "the engine went away")
    for pause in (5.0, 10.0):
        ledger.runs.lose(take(ledger, number), gone)
        assert ledger.runs.take("w1", lease_s=20.0, among=[number]) is None
        clock.now += pause
    ledger.runs.lose(take(ledger, number), gone)
    row = ledger.runs.get(number)
    assert (row.status.state, row.status.reason, row.status.losses) == (
        RunState.FAILED,
        Reason.ATTEMPTS_EXHAUSTED,
        3,
    )
    failure = row.failure()
    assert failure is not None
    assert failure.code is Code.ATTEMPTS_EXHAUSTED
    assert [item.outcome for item in ledger.runs.attempts(number)] == [Outcome.LOST] * 3


def test_an_attempt_tells_where_it_worked_and_where_its_log_is(ledger: Ledger) -> None:
    number = ask(ledger)
    seat = Seat("b1", "docker", "sha256:" + "1" * 64)
    taken = ledger.runs.take("w1", lease_s=20.0, among=[number], seat=seat)
    assert taken is not None
    ledger.runs.keep_log(taken[0], "sha256:" + "2" * 64)
    item = ledger.runs.attempts(number)[0]
    assert (Seat(item.host, item.runner, item.image), item.log) == (seat, "sha256:" + "2" * 64)


def test_workers_are_listed_while_they_are_seen(ledger: Ledger, clock: Clock) -> None:
    ledger.workers.seen("w1", seat=Seat("b1", "process"), slots=2)
    clock.now += 8.0
    ledger.workers.seen("w2")
    ledger.workers.seen("w1", seat=Seat("b1", "process"), slots=2, draining=True)
    found = [
        (one.name, one.host, one.slots, one.since, one.seen_at, one.draining) for one in ledger.workers.alive(10.0)
    ]
    assert found == [("w1", "b1", 2, 1_000_000.0, 1_000_008.0, True), ("w2", "", 1, 1_000_008.0, 1_000_008.0, False)]
    ledger.workers.gone("w2")
    assert [one.name for one in ledger.workers.alive(10.0)] == ["w1"]
    clock.now += 11.0
    assert ledger.workers.alive(10.0) == []


def at_once(ledger_address: Path | str, act: Callable[[Ledger, int], Any], times: int = 8) -> list[Any]:
    """What `act` gives in so many threads, each with a connection of its own, that begin together."""
    together = threading.Barrier(times)

    def work(number: int) -> Any:
        with opened(ledger_address) as own:
            together.wait()
            return act(own, number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(work, range(times)))


def test_eight_askers_at_once_share_one_run(ledger_address: Path | str, ledger: Ledger) -> None:
    found = at_once(ledger_address, lambda own, _: own.runs.submit(execution_key="e", recipe_key="r", action="{}"))
    assert {run.id for run, _ in found} == {1}
    assert sorted(joined for _, joined in found) == [False, *[True] * 7]
    assert len(ledger.runs.live()) == 1


def test_of_eight_workers_at_once_one_gets_the_lease(ledger_address: Path | str, ledger: Ledger) -> None:
    number = ask(ledger)
    found = at_once(ledger_address, lambda own, who: own.runs.take(f"w{who}", lease_s=60.0, among=[number]))
    assert [taken[0].fencing for taken in found if taken is not None] == [1]


def test_of_eight_reconcilers_at_once_one_sends_each_hint(ledger_address: Path | str, ledger: Ledger) -> None:
    runs = [(ask(ledger, key), key) for key in ("e1", "e2", "e3")]
    found = at_once(ledger_address, lambda own, _: own.runs.takable(9, lease_s=20.0, quiet_s=60.0))
    assert sorted(hint for hints in found for hint in hints) == runs


def test_a_cancel_and_a_taking_at_once_never_lose_the_cancel(ledger_address: Path | str, ledger: Ledger) -> None:
    for turn in range(5):
        number = ask(ledger, f"e{turn}")

        def act(own: Ledger, who: int, number: int = number) -> Any:
            if who:
                return own.runs.take("w", lease_s=60.0, among=[number])
            return own.runs.cancel([number])

        _, taken = at_once(ledger_address, act, 2)
        status = ledger.runs.get(number).status
        assert status.cancel_asked
        assert status.state is (RunState.CANCELLED if taken is None else RunState.RUNNING)


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


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET state = 'runninh'",
        "UPDATE runs SET losses = 'x'",
        "UPDATE runs SET created_at = 1e300",
        "UPDATE runs SET error = '{'",
        "UPDATE runs SET execution_key = x'ff'",
    ],
)
def test_a_value_that_the_farm_did_not_write_is_damage_and_names_the_run(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path / "ledger.sqlite3") as ledger:  # PostgreSQL keeps its own checksums
        number = ask(ledger)
        with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
            connection.execute("PRAGMA ignore_check_constraints = 1")
            connection.execute(damage)

        with pytest.raises(FarmError) as caught:
            ledger.runs.get(number)

    assert caught.value.code is Code.LEDGER_CORRUPT
    assert f"r{number}" in caught.value.why
