"""What the gate does for a worker whose certificate it has checked; no HTTP here.

Every operation asks the ledger whether this worker was ever given this lease, whatever else it says. A result counts
once the gate has fetched every byte of it, and only while the lease holds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from containers.result import PAYLOAD_FILES, Accepted
from farm import blobs, describe, logs
from farm.actions import Job
from farm.blobs import Repository
from farm.config import Config
from farm.gate import messages, tokens
from farm.gate.authority import Authority
from farm.gate.messages import Beat, Beaten, Fail, Finish, Grant, Held, Lose, Take, Taken, Token
from farm.https import Peer
from farm.ledger import rules
from farm.ledger.ledger import Ledger
from farm.ledger.nouns import NOWHERE, AttemptRow, RunRow, Seat
from farm.ledger.rules import Lease, Reason
from farm.logs import log_path
from farm.payload import payload_digest
from farm.worker import take_in
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Payload
from kernelfarm.store import ContentStore

_GRACE_S = 900.0
"""A worker elsewhere has this beside the time of the compile, to fetch and to bring."""
_SEEN_S = 5.0
_STAGE_LIMIT = 200
_COUNT_LIMIT = 1 << 31
"""Above the ledger's integers."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The farm's state as the gate uses it; threads may share one. `registry` is where blobs go through."""

    settings: Config
    ledger: Ledger
    store: ContentStore
    authority: Authority
    registry: Peer
    _jobs: dict[int, Job] = field(default_factory=dict)
    _seats: dict[str, Seat] = field(default_factory=dict)
    _seen_at: dict[str, float] = field(default_factory=dict)

    def announce(self, worker: str, asked: Take) -> None:
        """Tell who looks on that this worker is up (`farm.ledger.workers`)."""
        means = asked.offer.means
        only = means[0].execution if len(means) == 1 else None
        seat = Seat(_short(asked.host), only.runner if only else "", only.image if only else None)
        self._seats[worker] = seat
        self._seen(worker)

    def take(self, worker: str, asked: Take) -> Taken:
        """Lease the oldest run that fits the worker's offer, its inputs brought into the registry before."""
        runs, lease_s = self.ledger.runs, self.settings.lease_s
        now = runs.now()
        live = runs.live()
        self._forget(live)
        for row in live:
            if not rules.can_take(row.status, now, lease_s):
                continue
            job = self._job(row)
            if job is None or not asked.offer.fits(job) or not self._bring_inputs(row, job):
                continue
            execution = job.action.execution
            seat = Seat(_short(asked.host), execution.runner, execution.image)
            taken = runs.take(ledger_name(worker), lease_s=lease_s, among=[row.id], seat=seat)
            if taken is not None:
                lease, held = taken
                logs.try_keep_earlier(runs, self.store, self.settings.home.logs, lease)
                return Taken(Grant(lease.run_id, lease.fencing, lease.until, held.action, held.salt))
        return Taken(None)

    def beat(self, worker: str, asked: Beat) -> Beaten:
        """Prolong a lease; one that began longer ago than any compile may take is not prolonged, so that it ends."""
        attempt = self._attempt(worker, asked.held)
        lease = _lease_of(attempt)
        self._require_timely(attempt)
        self._seen(worker)
        progress = asked.progress
        if progress is not None:
            stage, *counts = progress
            if not stage.isprintable() or any(not 0 <= count < _COUNT_LIMIT for count in counts):
                raise malformed("its progress is not a stage and two counts")
            progress = (stage[:_STAGE_LIMIT], progress[1], progress[2])
        renewed = self.ledger.runs.beat(lease, lease_s=self.settings.lease_s, progress=progress)
        return Beaten(renewed.until, renewed.cancel_asked)

    def token(self, worker: str, asked: Held) -> Token:
        """A token for the registry, while the lease holds."""
        self._require_held(self._lease(worker, asked))
        access = {tokens.INPUTS: ("pull",), tokens.results_of(worker): ("pull", "push")}
        return Token(tokens.issue(self.authority, worker, access))

    def log(self, worker: str, asked: Held, offset: int, data: bytes) -> int:
        """Append to an attempt's log; bytes of it that are there now. A piece that does not fit its end is left out.

        What is beyond LOG_LIMIT is dropped.
        """
        lease = self._lease(worker, asked)
        self._require_held(lease)
        path = log_path(self.settings.home.logs, lease.run_id, lease.fencing)
        with files.coded("a log could not be kept", path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "ab") as stream:
                size = os.fstat(stream.fileno()).st_size
                if offset == size:
                    stream.write(data[: max(0, messages.LOG_LIMIT - size)])
                    stream.flush()
                return os.fstat(stream.fileno()).st_size

    def finish(self, worker: str, asked: Finish) -> None:
        """Fetch a result, check it, take it in. Raises LEASE_LOST, RESULT_REFUSED, BLOB_REFUSED or BLOB_MISSING.

        A worker that did not get the answer may ask again: what is done with the same payload stays done.
        """
        if asked.max_rss_bytes is not None and asked.max_rss_bytes < 0:
            raise malformed("its resident set is negative")
        lease = self._lease(worker, asked.held)
        runs = self.ledger.runs
        row = runs.get(lease.run_id)
        text = canonical.encode(asked.payload).decode()
        if row.status.state.final and row.status.fencing == lease.fencing and row.payload == text:
            return
        self._require_held(lease)
        job = self._job(row)
        if job is None:
            raise _refused("its job is of another version of the farm")
        self._require_shape(job, asked.payload)
        cache = self.settings.home.cache
        with files.coded("a result could not be fetched", cache), files.temp_folder(cache) as scratch:
            self._fetch(worker, asked.payload, scratch)
            self._require_held(lease)
            describe.require(job, scratch)
            take_in(job, Accepted(scratch, asked.payload.files, ()), self.store)
        self._keep_log(lease)
        runs.finish(lease, text, max_rss_bytes=asked.max_rss_bytes)

    def fail(self, worker: str, asked: Fail) -> None:
        """Close a run as failed."""
        lease = self._lease(worker, asked.held)
        if asked.reason not in messages.FAILURES:
            raise malformed(f"a worker cannot give the reason {asked.reason.value}")
        error = _error(asked.error)
        self._end(lease)
        self.ledger.runs.fail(lease, asked.reason, error)

    def release(self, worker: str, asked: Held) -> None:
        """Give a run back."""
        lease = self._lease(worker, asked)
        self._end(lease)
        self.ledger.runs.release(lease)

    def lose(self, worker: str, asked: Lose) -> None:
        """Give a run back because its machine lost what it ran on."""
        lease = self._lease(worker, asked.held)
        self._end(lease)
        self.ledger.runs.lose(lease, _error(asked.error))

    def _end(self, lease: Lease) -> None:
        """What comes before every end of an attempt but a result's: the lease holds, and the log is kept."""
        self._require_held(lease)
        self._keep_log(lease)

    def _seen(self, worker: str) -> None:
        now = time.monotonic()
        if now < self._seen_at.get(worker, -_SEEN_S) + _SEEN_S:
            return
        self._seen_at[worker] = now
        self.ledger.workers.seen(ledger_name(worker), seat=self._seats.get(worker, NOWHERE))

    def _lease(self, worker: str, held: Held) -> Lease:
        """As `_attempt`, the attempt's lease."""
        return _lease_of(self._attempt(worker, held))

    def _attempt(self, worker: str, held: Held) -> AttemptRow:
        """The attempt that this worker was once given. Raises GATE_REFUSED for someone else's, or one never given."""
        for attempt in self.ledger.runs.attempts(held.run):
            if attempt.fencing == held.fencing:
                if attempt.worker == ledger_name(worker):
                    return attempt
                break
        why = f"lease {held.fencing} on run r{held.run} was never given to {worker}"
        raise FarmError(Code.GATE_REFUSED, "the gate refused this worker", why, "A worker speaks for its own runs.")

    def _require_held(self, lease: Lease) -> None:
        status = self.ledger.runs.get(lease.run_id).status
        if not rules.held(status, lease.fencing):
            raise rules.lease_lost(lease.run_id, f"it is {status.state.value} and lease {status.fencing} is its last")

    def _require_timely(self, attempt: AttemptRow) -> None:
        most = self.settings.limits.wall_s + _GRACE_S
        if self.ledger.runs.now() > attempt.started_at + most:
            raise rules.lease_lost(attempt.run_id, f"a compile elsewhere may take {most:g} s in all")

    def _job(self, row: RunRow) -> Job | None:
        """The job of a run; None for one that another version of the farm wrote: no worker here can do it."""
        found = self._jobs.get(row.id)
        if found is None:
            try:
                found = canonical.decode(Job, row.action.encode(), name=f"the job of run r{row.id}")
            except FarmError:
                return None
            self._jobs[row.id] = found
        return found

    def _forget(self, live: list[RunRow]) -> None:
        for number in set(self._jobs) - {row.id for row in live}:
            self._jobs.pop(number, None)

    def _bring_inputs(self, row: RunRow, job: Job) -> bool:
        """Have a job's inputs in the registry. A run whose inputs the store lost is failed here: it must block none."""
        inputs = self._repository(tokens.INPUTS, "pull", "push")
        try:
            for digest, _size in job.inputs:
                inputs.put(self.store, digest)
        except FarmError as error:
            if error.code not in (Code.STORE_MISSING, Code.STORE_CORRUPT):
                raise
            taken = self.ledger.runs.take(ledger_name(""), lease_s=self.settings.lease_s, among=[row.id])
            if taken is not None:
                self.ledger.runs.fail(taken[0], Reason.ENVIRONMENT, error)
            return False
        return True

    def _repository(self, name: str, *actions: str) -> Repository:
        issue = partial(tokens.issue, self.authority, "gate", {name: actions})
        return Repository(self.registry, name, blobs.Token(issue, tokens.LIFE_S))  # one for all blobs of a result

    def _require_shape(self, job: Job, payload: Payload) -> None:
        """Refuse before anything is fetched what no fetching can make right."""
        if (payload.model_name, payload.target_name) != (job.model.name, job.action.target_name):
            raise _refused("it is the payload of another job")
        if {entry.name for entry in payload.files} != set(PAYLOAD_FILES):
            raise _refused("it has other files than a payload")
        for entry in payload.files:
            if entry.size > PAYLOAD_FILES[entry.name]:
                raise _refused(f"{entry.name} has {entry.size} bytes, more than {PAYLOAD_FILES[entry.name]}")

    def _fetch(self, worker: str, payload: Payload, scratch: Path) -> None:
        results = self._repository(tokens.results_of(worker), "pull")
        for entry in payload.files:
            results.get(entry.digest, entry.size, scratch / entry.name)
        if (found := payload_digest(scratch)) != payload.digest:
            raise _refused(f"its files make the payload {found}, not {payload.digest}")

    def _keep_log(self, lease: Lease) -> None:
        logs.try_keep(self.ledger.runs, self.store, self.settings.home.logs, lease)


def _lease_of(attempt: AttemptRow) -> Lease:
    return Lease(attempt.run_id, attempt.fencing, attempt.worker, 0.0)


def ledger_name(worker: str) -> str:
    """What the ledger calls an enrolled worker: no worker of this machine can have such a name."""
    return f"gate:{worker}"


def malformed(why: str) -> FarmError:
    """The error of a message that is none."""
    return FarmError(Code.GATE_PROTOCOL, "a message to the gate was refused", why, "Do both sides run the same farm?")


def _refused(why: str) -> FarmError:
    return FarmError(Code.RESULT_REFUSED, "the result of a compile was refused", why, "Nothing of it was kept.")


def _error(text: str) -> FarmError:
    """A worker's error, which is for people to read, and bounded: `Fail` and `Lose` say what becomes of the run."""
    if len(text) > messages.ERROR_LIMIT:
        raise malformed(f"its error has more than {messages.ERROR_LIMIT} characters")
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise malformed("its error is not JSON") from reason
    return FarmError.from_json(data if isinstance(data, Mapping) else None)


def _short(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:100]
