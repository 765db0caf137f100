"""Runs, attempts and the execution cache in the ledger: the rules of `farm.ledger.rules` inside transactions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from farm.ledger import rows, rules
from farm.ledger.database import Database
from farm.ledger.rules import Lease, Outcome, Reason, RunStatus
from farm.ledger.tables import attempts, cache, runs
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the ledger holds it. `action`, `payload` and `error` are JSON; times are seconds since 1970 UTC."""

    status: RunStatus
    execution_key: str
    recipe_key: str
    salt: str
    action: str
    stage: str
    done: int
    total: int
    payload: str | None
    error: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None

    @property
    def id(self) -> int:
        """Number of the run; people see it as r<number>."""
        return self.status.id

    @property
    def seconds(self) -> float | None:
        """Time from the first taking to the end; None before the end."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    def failure(self) -> FarmError | None:
        """The error of a failed run."""
        return None if self.error is None else FarmError.from_json(json.loads(self.error))


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One lease on a run, and how it ended; `max_rss_bytes` is the largest resident set of a compile that was done."""

    run_id: int
    fencing: int
    worker: str
    started_at: float
    ended_at: float | None
    outcome: Outcome | None
    error: str | None
    max_rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class CacheRow:
    """What an execution key gave: the payload's canonical JSON and the run that made it."""

    execution_key: str
    recipe_key: str
    payload: str
    run_id: int
    recorded_at: float


class Runs:
    """Operations on runs. Changing a running run needs its lease; a stale one raises LEASE_LOST and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self, *, execution_key: str, recipe_key: str, action: str, salt: str = "", max_attempts: int = 3
    ) -> tuple[RunRow, bool]:
        """The live run of a key, made when there is none; True in second place when it was there (the caller joins it).

        A different `salt` asks for a run of its own of the same key, as an independent rebuild needs.
        """
        made = self._submit(execution_key, recipe_key, action, salt, max_attempts, unless_cached=False)
        assert made is not None
        return made

    def submit_unless_cached(
        self, *, execution_key: str, recipe_key: str, action: str, max_attempts: int = 3
    ) -> tuple[RunRow, bool] | None:
        """As `submit`, but None when the cache holds the key by now: a run may have ended since the caller looked."""
        return self._submit(execution_key, recipe_key, action, "", max_attempts, unless_cached=True)

    def _submit(
        self, execution_key: str, recipe_key: str, action: str, salt: str, max_attempts: int, *, unless_cached: bool
    ) -> tuple[RunRow, bool] | None:
        entry = sa.select(cache.c.run_id).where(cache.c.execution_key == execution_key)
        values = {
            "execution_key": execution_key,
            "recipe_key": recipe_key,
            "salt": salt,
            "action": action,
            "max_attempts": max_attempts,
        }
        while True:
            with self._database.write() as connection:
                found = connection.execute(_live(execution_key, salt)).first()
                if found is not None:
                    return _run(found), True
                if unless_cached and connection.execute(entry).first() is not None:
                    return None
                number = self._insert(connection, values)
            if number is not None:
                return self.get(number), False

    def _insert(self, connection: Connection, values: dict[str, object]) -> int | None:
        """A new queued run; None when another process made one of the same key a moment before (PostgreSQL only)."""
        fresh = {
            "state": RunState.QUEUED.value,
            "reason": Reason.ASKED.value,
            "attempts": 0,
            "fencing": 0,
            "stage": "",
            "done": 0,
            "total": 0,
            "created_at": self._database.now(connection),
        }
        try:
            with connection.begin_nested():
                made = connection.execute(runs.insert().values(**fresh, **values).returning(runs.c.id))
                return int(made.scalar_one())
        except sa.exc.IntegrityError:
            return None

    def take(self, worker: str, *, lease_s: float, among: Sequence[int]) -> tuple[Lease, RunRow] | None:
        """Lease the oldest run `among` these ids that can be taken; None when there is none now.

        Runs that wore out all their attempts are closed as failed on the way.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            query = runs.select().where(runs.c.id.in_(among), _is_live()).order_by(runs.c.id)
            for row in [_run(item) for item in connection.execute(query.with_for_update(skip_locked=True))]:
                if not rules.can_take(row.status, now, lease_s):
                    continue
                if rules.expired(row.status, now, lease_s):
                    _close_attempt(connection, row.status, Outcome.LEASE_EXPIRED, now)
                taken = rules.take(row.status, worker, now, lease_s)
                if taken.state is RunState.FAILED:
                    self._exhausted(connection, taken, now)
                    continue
                return self._taken(connection, row, taken, now)
        return None

    def _taken(self, connection: Connection, row: RunRow, taken: RunStatus, now: float) -> tuple[Lease, RunRow]:
        assert taken.worker is not None and taken.lease_until is not None
        started = now if row.started_at is None else row.started_at
        _save(connection, taken, stage="", done=0, total=0, started_at=started)
        connection.execute(
            attempts.insert().values(run_id=taken.id, fencing=taken.fencing, worker=taken.worker, started_at=now)
        )
        lease = Lease(taken.id, taken.fencing, taken.worker, taken.lease_until)
        return lease, _run(connection.execute(runs.select().where(runs.c.id == taken.id)).one())

    def _exhausted(self, connection: Connection, run: RunStatus, now: float) -> None:
        error = FarmError(
            Code.ATTEMPTS_EXHAUSTED,
            f"run r{run.id} was given up",
            f"its worker died {run.attempts} times",
            f"See `farm logs r{run.id}`; check the machine's memory with `farm doctor`.",
        )
        _save(connection, run, ended_at=now, error=json.dumps(error.to_json(), sort_keys=True))

    def beat(self, lease: Lease, *, lease_s: float, progress: tuple[str, int, int] | None = None) -> Lease:
        """Prolong a lease, and record (stage, done, total) when given. Raises LEASE_LOST."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            run = rules.beat(_locked(connection, lease.run_id).status, lease.fencing, now, lease_s)
            extra = {} if progress is None else dict(zip(("stage", "done", "total"), progress, strict=True))
            _save(connection, run, **extra)
        return Lease(lease.run_id, lease.fencing, lease.worker, now + lease_s)

    def finish(self, lease: Lease, payload: str, *, max_rss_bytes: int | None = None) -> RunRow:
        """Close a run as done and enter its payload into the execution cache, both or neither.

        Raises LEASE_LOST for a stale lease. When the cache holds another payload for the same key the run fails with
        PAYLOAD_DIFFERS, which is raised, and the cache keeps what it had: one of the two is wrong, who knows which.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            row = _locked(connection, lease.run_id)
            run = rules.finish(row.status, lease.fencing)
            known = connection.execute(cache.select().where(cache.c.execution_key == row.execution_key)).first()
            differs = None if known is None or known.payload == payload else _differs(row, known.payload, payload)
            if differs is not None:
                failed = rules.fail(row.status, lease.fencing, Reason.PAYLOAD_DIFFERS)
                _end(connection, failed, Outcome.FAILED, now, differs)
            else:
                _save(connection, run, payload=payload, ended_at=now)
                _close_attempt(connection, row.status, Outcome.DONE, now, max_rss_bytes=max_rss_bytes)
                if known is None:
                    entry = {"execution_key": row.execution_key, "recipe_key": row.recipe_key, "payload": payload}
                    connection.execute(cache.insert().values(**entry, run_id=row.id, recorded_at=now))
        if differs is not None:
            raise differs
        return self.get(lease.run_id)

    def fail(self, lease: Lease, reason: Reason, error: FarmError) -> None:
        """Close a run as failed. Raises LEASE_LOST."""
        with self._database.write() as connection:
            run = rules.fail(_locked(connection, lease.run_id).status, lease.fencing, reason)
            _end(connection, run, Outcome.FAILED, self._database.now(connection), error)

    def release(self, lease: Lease) -> None:
        """Give a run back to the queue, because the worker must stop. Raises LEASE_LOST."""
        with self._database.write() as connection:
            before = _locked(connection, lease.run_id).status
            _save(connection, rules.release(before, lease.fencing))
            _close_attempt(connection, before, Outcome.INTERRUPTED, self._database.now(connection))

    def cancel(self, ids: Sequence[int]) -> None:
        """Cancel those of the runs that are queued."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            for number in sorted(ids):
                before = _locked(connection, number).status
                after = rules.cancel(before)
                if after != before:
                    _save(connection, after, ended_at=now)

    def get(self, number: int) -> RunRow:
        """One run; raises RUN_UNKNOWN."""
        found = self.select([number])
        if not found:
            raise unknown_run(number)
        return found[0]

    def select(self, ids: Sequence[int]) -> list[RunRow]:
        """The runs with these ids that exist, by id."""
        return self._query(runs.select().where(runs.c.id.in_(ids)).order_by(runs.c.id))

    def recent(self, limit: int = 20) -> list[RunRow]:
        """The newest runs, newest first."""
        return self._query(runs.select().order_by(runs.c.id.desc()).limit(limit))

    def attempts(self, number: int) -> list[AttemptRow]:
        """The attempts of a run in their order."""
        with self._database.read() as connection:
            query = attempts.select().where(attempts.c.run_id == number).order_by(attempts.c.fencing)
            return [_attempt(row) for row in connection.execute(query)]

    def cached(self, execution_key: str) -> CacheRow | None:
        """What the cache holds for a key."""
        with self._database.read() as connection:
            row = connection.execute(cache.select().where(cache.c.execution_key == execution_key)).first()
        return None if row is None else rows.read(CacheRow, row._mapping, f"the cache entry {execution_key}")

    def forget(self, execution_key: str) -> None:
        """Remove a key from the cache (its bytes are gone); the next build compiles it again."""
        with self._database.write() as connection:
            connection.execute(cache.delete().where(cache.c.execution_key == execution_key))

    def now(self) -> float:
        """The ledger's time, in seconds since 1970 UTC."""
        with self._database.read() as connection:
            return self._database.now(connection)

    def _query(self, query: sa.Select[tuple[object, ...]]) -> list[RunRow]:
        with self._database.read() as connection:
            return [_run(row) for row in connection.execute(query)]


def unknown_run(number: int) -> FarmError:
    """The error of a run that is not in the ledger."""
    advice = "`farm status` lists the latest builds and runs."
    return FarmError(Code.RUN_UNKNOWN, f"there is no run r{number}", "the ledger does not hold it", advice)


def _live(execution_key: str, salt: str) -> sa.Select[tuple[object, ...]]:
    return runs.select().where(runs.c.execution_key == execution_key, runs.c.salt == salt, _is_live())


def _is_live() -> sa.ColumnElement[bool]:
    return runs.c.state.in_([state.value for state in rules.LIVE_STATES])


def _locked(connection: Connection, number: int) -> RunRow:
    found = connection.execute(runs.select().where(runs.c.id == number).with_for_update()).first()
    if found is None:
        raise unknown_run(number)
    return _run(found)


def _save(connection: Connection, run: RunStatus, **extra: object) -> None:
    values = {
        "state": run.state.value,
        "reason": run.reason.value,
        "fencing": run.fencing,
        "attempts": run.attempts,
        "worker": run.worker,
        "lease_until": run.lease_until,
    }
    connection.execute(runs.update().where(runs.c.id == run.id).values(**values, **extra))


def _end(connection: Connection, run: RunStatus, outcome: Outcome, now: float, error: FarmError) -> None:
    text = json.dumps(error.to_json(), sort_keys=True)
    _save(connection, run, ended_at=now, error=text)
    _close_attempt(connection, run, outcome, now, error=text)


def _close_attempt(connection: Connection, run: RunStatus, outcome: Outcome, now: float, **extra: object) -> None:
    one = sa.and_(attempts.c.run_id == run.id, attempts.c.fencing == run.fencing)
    connection.execute(attempts.update().where(one).values(ended_at=now, outcome=outcome.value, **extra))


def _differs(row: RunRow, known: str, found: str) -> FarmError:
    return FarmError(
        Code.PAYLOAD_DIFFERS,
        f"run r{row.id} gave other bytes than an earlier run of the same action",
        "a compile must give the same bytes every time",
        "Keep both payloads and report it; `farm rebuild` shows where they differ.",
        detail={"execution_key": row.execution_key, "known": json.loads(known), "found": json.loads(found)},
    )


def _run(row: Row[tuple[object, ...]]) -> RunRow:
    values, name = row._mapping, f"run r{row.id}"
    return rows.read(RunRow, {**values, "status": rows.read(RunStatus, values, name)}, name)


def _attempt(row: Row[tuple[object, ...]]) -> AttemptRow:
    return rows.read(AttemptRow, row._mapping, f"attempt {row.fencing} of run r{row.run_id}")
