"""The life of a run as pure rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from farm.ledger import rules
from farm.ledger.rules import Reason, RunStatus
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState

QUEUED = RunStatus(id=7, state=RunState.QUEUED, reason=Reason.ASKED)
RUNNING = rules.take(QUEUED, "w1", now=100.0, lease_s=20.0)


def test_taking_a_queued_run_gives_the_first_fencing_number_and_a_lease() -> None:
    assert (
        RunStatus(
            id=7,
            state=RunState.RUNNING,
            reason=Reason.TAKEN,
            fencing=1,
            losses=0,
            max_losses=3,
            worker="w1",
            lease_until=120.0,
        )
        == RUNNING
    )


def test_a_run_cannot_be_taken_while_its_lease_lasts() -> None:
    with pytest.raises(FarmError) as caught:
        rules.take(RUNNING, "w2", now=119.9, lease_s=20.0)
    assert caught.value.code is Code.LEASE_LOST


def test_when_the_lease_is_over_another_worker_takes_the_run_with_a_greater_number() -> None:
    taken = rules.take(RUNNING, "w2", now=120.0, lease_s=20.0)
    assert (taken.worker, taken.fencing, taken.losses) == ("w2", 2, 1)


def test_a_heartbeat_prolongs_the_lease_from_now() -> None:
    assert rules.beat(RUNNING, 1, now=115.0, lease_s=20.0).lease_until == 135.0


def test_a_slow_worker_keeps_an_expired_lease_that_nobody_took() -> None:
    assert rules.finish(RUNNING, 1).state is RunState.DONE


@pytest.mark.parametrize(
    "late",
    [
        lambda run: rules.beat(run, 1, 130.0, 20.0),
        lambda run: rules.finish(run, 1),
        lambda run: rules.fail(run, 1, Reason.COMPILE_ERROR),
        lambda run: rules.release(run, 1),
        lambda run: rules.lose(run, 1, 130.0),
    ],
    ids=["beat", "finish", "fail", "release", "lose"],
)
def test_a_stale_fencing_number_changes_nothing(late: object) -> None:
    taken = rules.take(RUNNING, "w2", now=121.0, lease_s=20.0)
    with pytest.raises(FarmError) as caught:
        late(taken)  # type: ignore[operator]
    assert caught.value.code is Code.LEASE_LOST


def test_the_fourth_taking_gives_the_run_up() -> None:
    worn = replace(RUNNING, losses=2, fencing=3)
    given_up = rules.take(worn, "w4", now=200.0, lease_s=20.0)
    assert (given_up.state, given_up.reason, given_up.fencing) == (RunState.FAILED, Reason.ATTEMPTS_EXHAUSTED, 3)


def test_an_interrupted_attempt_is_no_loss() -> None:
    released = rules.release(RUNNING, 1)
    assert (released.state, released.reason, released.losses, released.fencing) == (
        RunState.QUEUED,
        Reason.INTERRUPTED,
        0,
        1,
    )


def test_a_queued_run_is_cancelled_at_once() -> None:
    cancelled = rules.cancel(QUEUED)
    assert (cancelled.state, cancelled.reason) == (RunState.CANCELLED, Reason.CANCEL_ASKED)


def test_a_running_run_is_cancelled_when_its_worker_gives_it_back() -> None:
    asked = rules.cancel(RUNNING, Reason.UNWANTED)
    assert (asked.state, asked.cancel_asked) == (RunState.RUNNING, True)
    ended = rules.release(asked, 1)
    assert (ended.state, ended.reason, ended.worker) == (RunState.CANCELLED, Reason.UNWANTED, None)


def test_a_running_run_is_cancelled_when_its_worker_falls_silent() -> None:
    assert rules.take(rules.cancel(RUNNING), "w2", now=121.0, lease_s=20.0).state is RunState.CANCELLED


def test_a_result_that_comes_before_the_worker_saw_the_cancel_counts() -> None:
    assert rules.finish(rules.cancel(RUNNING), 1).state is RunState.DONE


def test_who_asks_for_a_run_that_is_being_cancelled_wants_it_again() -> None:
    wanted = rules.want(rules.cancel(RUNNING))
    assert wanted == RUNNING
    assert rules.release(wanted, 1).state is RunState.QUEUED


@pytest.mark.parametrize("state", [RunState.DONE, RunState.FAILED, RunState.CANCELLED])
def test_a_final_run_cannot_be_cancelled(state: RunState) -> None:
    ended = replace(QUEUED, state=state, reason=Reason.COMPILED)
    assert rules.cancel(ended) == ended


def test_a_loss_brings_the_run_back_after_a_pause() -> None:
    lost = rules.lose(RUNNING, 1, now=110.0)
    assert (lost.state, lost.reason, lost.losses, lost.not_before) == (RunState.QUEUED, Reason.LOST, 1, 115.0)
    assert not rules.can_take(lost, 114.9)
    taken = rules.take(lost, "w2", now=115.0, lease_s=20.0)
    assert (taken.fencing, taken.losses, taken.not_before) == (2, 1, None)


def test_a_pause_from_before_the_clock_went_back_holds_nobody_up() -> None:
    assert rules.can_take(replace(QUEUED, not_before=115.0), now=-3600.0)


def test_the_third_loss_gives_the_run_up() -> None:
    given_up = rules.lose(replace(RUNNING, losses=2), 1, now=110.0)
    assert (given_up.state, given_up.reason, given_up.losses) == (RunState.FAILED, Reason.ATTEMPTS_EXHAUSTED, 3)


def test_a_lost_run_whose_end_was_asked_for_does_not_come_back() -> None:
    assert rules.lose(rules.cancel(RUNNING), 1, now=110.0).state is RunState.CANCELLED


@pytest.mark.parametrize(("losses", "seconds"), [(1, 5.0), (2, 10.0), (3, 20.0), (5, 60.0), (2000, 60.0)])
def test_the_pause_after_a_loss(losses: int, seconds: float) -> None:
    assert rules.pause_s(losses) == seconds


@pytest.mark.parametrize(
    ("runs", "alive", "limit", "wanted"),
    [
        ([QUEUED], [], 2, 1),
        ([QUEUED, QUEUED, QUEUED], [], 2, 2),
        ([QUEUED], ["w9"], 2, 0),
        ([RUNNING, QUEUED], ["w1"], 2, 1),
        ([RUNNING], [], 2, 0),
        ([RUNNING, QUEUED], ["w1"], 1, 0),
    ],
    ids=["one", "limit", "one-is-on-its-way", "the-other-is-busy", "anothers-run", "full"],
)
def test_workers_wanted(runs: list[RunStatus], alive: list[str], limit: int, wanted: int) -> None:
    assert rules.workers_wanted(runs, 110.0, alive, limit) == wanted


def test_a_worker_that_lets_its_lease_run_out_is_stuck() -> None:
    assert rules.stuck([RUNNING, QUEUED], 124.9, ["w1", "w2"], grace_s=5.0) == ()
    assert rules.stuck([RUNNING, QUEUED], 125.0, ["w1", "w2"], grace_s=5.0) == ("w1",)
    assert rules.stuck([RUNNING], 125.0, ["w2"], grace_s=5.0) == ()


def test_an_expired_run_is_left_to_its_worker_while_that_is_alive() -> None:
    assert rules.workers_wanted([RUNNING], 120.0, ["w1"], 2) == 0


def test_a_run_of_a_dead_worker_wants_a_new_one_after_its_lease() -> None:
    assert rules.workers_wanted([RUNNING], 120.0, [], 1) == 1


def test_a_lease_from_before_the_clock_went_back_holds_nobody_up() -> None:
    assert not rules.expired(RUNNING, now=81.0, lease_s=20.0)  # it ends at 120: the clock went back a little
    assert rules.expired(RUNNING, now=79.0, lease_s=20.0)
    assert rules.take(RUNNING, "w2", now=-3600.0, lease_s=20.0).fencing == 2
    assert rules.workers_wanted([RUNNING], -3600.0, [], 1, 20.0) == 1
