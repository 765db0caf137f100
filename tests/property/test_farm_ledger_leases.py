"""Any order of askers, workers and clock jumps: only the newest lease changes a run, and no result comes twice."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from farm.ledger.rules import Lease, Reason
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import TRANSITIONS, RunState
from tests.support import farms
from tests.support.farms import Clock

LEASE_S = 10.0
WORKERS = st.sampled_from(["w1", "w2", "w3"])


class Leases(RuleBasedStateMachine):
    """The ledger beside the simplest possible notion of it: which lease of each run is the newest, and is it over."""

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.clock = Clock()
        self.ledger = self.stack.enter_context(farms.ledger(folder, self.clock))
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

    @rule(data=st.data(), what=st.sampled_from(["beat", "finish", "fail", "release"]))
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
        else:
            self.ledger.runs.release(lease)

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


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=10, stateful_step_count=25, deadline=None, derandomize=True)
