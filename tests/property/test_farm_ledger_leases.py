"""Any order of askers, workers and clock jumps: only the newest lease changes a run, and no result comes twice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from farm.ledger.ledger import opened
from farm.ledger.rules import Lease, Reason
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import TRANSITIONS, RunState
from tests.support.ledgers import Clock

LEASE_S = 10.0
WORKERS = st.sampled_from(["w1", "w2", "w3"])


class Leases(RuleBasedStateMachine):
    """The ledger beside the simplest possible notion of it: which lease of each run is the newest, and is it over."""

    def __init__(self, address: Callable[[], Path | str]) -> None:
        super().__init__()
        self.address = address

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.clock = Clock()
        self.ledger = self.stack.enter_context(opened(self.address(), clock=self.clock))
        self.leases: list[Lease] = []
        self.newest: dict[int, Lease] = {}
        self.states: dict[int, RunState] = {}
        self.results: dict[str, str] = {}

    def teardown(self) -> None:
        self.stack.close()

    @rule(key=st.sampled_from(["a", "b"]))
    def ask(self, key: str) -> None:
        run, joined = self.ledger.runs.submit(execution_key=key, recipe_key="r", action=key)
        assert joined == (run.id in self.states)
        self.states.setdefault(run.id, RunState.QUEUED)

    @rule(worker=WORKERS)
    def take(self, worker: str) -> None:
        taken = self.ledger.runs.take(worker, lease_s=LEASE_S, among=sorted(self.states))
        if taken is None:
            return
        lease, row = taken
        older = self.newest.get(lease.run_id)
        assert older is None or lease.fencing > older.fencing
        assert row.status.worker == worker
        self.newest[lease.run_id] = lease
        self.leases.append(lease)

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if not self.states:
            return
        number = data.draw(st.sampled_from(sorted(self.states)))
        before = self.ledger.runs.get(number).status
        after = self.ledger.runs.cancel([number])[0].status
        assert after.state is (RunState.CANCELLED if before.state is RunState.QUEUED else before.state)
        assert before.state.final or after.cancel_asked

    @rule()
    def hint(self) -> None:
        for number, _key in self.ledger.runs.takable(9, lease_s=LEASE_S):
            assert self.ledger.runs.get(number).status.state is not RunState.CANCELLED

    @rule(data=st.data(), what=st.sampled_from(["beat", "finish", "fail", "release", "lose"]))
    def act(self, data: st.DataObject, what: str) -> None:
        if not self.leases:
            return
        lease = data.draw(st.sampled_from(self.leases))
        before = self.ledger.runs.get(lease.run_id)
        valid = before.status.state is RunState.RUNNING and before.status.fencing == lease.fencing
        assert not valid or self.newest[lease.run_id].fencing == lease.fencing
        try:
            self._do(what, lease)
        except FarmError as error:
            assert error.code is Code.LEASE_LOST
            assert not valid
            assert self.ledger.runs.get(lease.run_id) == before
        else:
            assert valid

    def _do(self, what: str, lease: Lease) -> None:
        if what == "beat":
            self.ledger.runs.beat(lease, lease_s=LEASE_S, progress=("s", 1, 2))
        elif what == "finish":
            row = self.ledger.runs.finish(lease, "{}")
            self.results[row.execution_key] = "{}"
        elif what == "fail":
            self.ledger.runs.fail(lease, Reason.COMPILE_ERROR, FarmError(Code.COMPILE_FAILED, "no"))
        elif what == "release":
            asked = self.ledger.runs.get(lease.run_id).status.cancel_asked
            self.ledger.runs.release(lease)
            assert (self.ledger.runs.get(lease.run_id).status.state is RunState.CANCELLED) == asked
        else:
            self.ledger.runs.lose(lease, FarmError(Code.MACHINE_LACKS, "gone"))

    @invariant()
    def states_change_only_as_they_may(self) -> None:
        for row in self.ledger.runs.select(sorted(getattr(self, "states", {}))):
            before, after = self.states[row.id], row.status.state
            reachable = {
                before,
                *TRANSITIONS[before],
                *(last for next_ in TRANSITIONS[before] for last in TRANSITIONS[next_]),
            }
            assert after in reachable
            assert (row.status.lease_until is not None) == (after is RunState.RUNNING)
            assert len(self.ledger.runs.attempts(row.id)) == row.status.fencing
            self.states[row.id] = after

    @invariant()
    def a_key_has_one_live_run_and_a_cache_entry_exactly_after_a_result(self) -> None:
        if not hasattr(self, "states"):
            return
        live = [row.execution_key for row in self.ledger.runs.recent() if not row.status.state.final]
        assert len(live) == len(set(live))
        for key in ("a", "b"):
            assert (self.ledger.runs.cached(key) is not None) == (key in self.results)


def test_only_the_newest_lease_changes_a_run(ledger_address: Path | str, request: pytest.FixtureRequest) -> None:
    with ExitStack() as stack:

        def fresh() -> Path | str:
            if isinstance(ledger_address, str):
                return str(request.getfixturevalue("postgres_server").database())
            return Path(stack.enter_context(tempfile.TemporaryDirectory())) / "ledger.sqlite3"

        quick = settings(max_examples=10, stateful_step_count=25, deadline=None, derandomize=True)
        run_state_machine_as_test(lambda: Leases(fresh), settings=quick)  # type: ignore[no-untyped-call]
