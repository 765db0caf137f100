"""Runs, attempts and the execution cache in the ledger: the rules of `farm.ledger.rules` inside transactions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from farm.ledger import faults, rules
from farm.ledger.database import Database
from farm.ledger.nouns import NOWHERE, AttemptRow, CacheRow, RunRow, Seat, attempt_of, cached_of, run_of
from farm.ledger.rules import Lease, Outcome, Reason, RunStatus
from farm.ledger.tables import attempts, cache, is_number, runs
from kernelfarm.errors import FarmError
from kernelfarm.nouns import RunState


class Runs:
    """Operations on runs. Changing a running run needs its lease; a stale one raises LEASE_LOST and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self,
        *,
        execution_key: str,
        recipe_key: str,
        action: str,
        salt: str = "",
        max_losses: int = 3,
        target: str = "",
        model_bytes: int = 0,
    ) -> tuple[RunRow, bool]:
        """The live run of a key, made when there is none; True in second place when it was there (the caller joins it).

        A different `salt` asks for a run of its own of the same key, as an independent rebuild needs. `target` and
        `model_bytes` let later runs of the like be estimated. A live run whose end was asked for is wanted again.
        """
        values = {
            "execution_key": execution_key,
            "recipe_key": recipe_key,
            "action": action,
            "salt": salt,
            "max_losses": max_losses,
            "target": target,
            "model_bytes": model_bytes,
        }
        made = self._submit(values, unless_cached=False)
        assert made is not None
        return made

    def submit_unless_cached(
        self,
        *,
        execution_key: str,
        recipe_key: str,
        action: str,
        max_losses: int = 3,
        target: str = "",
        model_bytes: int = 0,
    ) -> tuple[RunRow, bool] | None:
        """As `submit`, but None when the cache holds the key by now: a run may have ended since the caller looked."""
        values = {
            "execution_key": execution_key,
            "recipe_key": recipe_key,
            "action": action,
            "salt": "",
            "max_losses": max_losses,
            "target": target,
            "model_bytes": model_bytes,
        }
        return self._submit(values, unless_cached=True)

    def _submit(self, values: Mapping[str, object], *, unless_cached: bool) -> tuple[RunRow, bool] | None:
        key = values["execution_key"]
        entry = sa.select(cache.c.run_id).where(cache.c.execution_key == key)
        while True:
            with self._database.write() as connection:
                found = connection.execute(_live(key).where(runs.c.salt == values["salt"]).with_for_update()).first()
                if found is not None:
                    row = run_of(found)
                    wanted = rules.want(row.status)
                    if wanted != row.status:
                        _save(connection, wanted)
                    return replace(row, status=wanted), True
                if unless_cached and connection.execute(entry).first() is not None:
                    return None
                number = self._insert(connection, values)
            if number is not None:
                return self.get(number), False

    def _insert(self, connection: Connection, values: Mapping[str, object]) -> int | None:
        """A new queued run; None when another process made one of the same key a moment before (PostgreSQL only)."""
        fresh = {
            "state": RunState.QUEUED.value,
            "reason": Reason.ASKED.value,
            "losses": 0,
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

    def take(
        self, worker: str, *, lease_s: float, among: Sequence[int], seat: Seat = NOWHERE
    ) -> tuple[Lease, RunRow] | None:
        """Lease the oldest run `among` these ids that can be taken; None when there is none now.

        Runs that wore out all their workers, or whose end was asked for, are closed on the way.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            query = runs.select().where(runs.c.id.in_(among), _is_live()).order_by(runs.c.id)
            for row in [run_of(item) for item in connection.execute(query.with_for_update(skip_locked=True))]:
                if not rules.can_take(row.status, now, lease_s):
                    continue
                taken = rules.take(row.status, worker, now, lease_s)
                _close_expired(connection, row.status, now, lease_s)
                if taken.state.final:
                    _close(connection, taken, now)
                    continue
                return self._taken(connection, row, taken, now, seat)
        return None

    def _taken(
        self, connection: Connection, row: RunRow, taken: RunStatus, now: float, seat: Seat
    ) -> tuple[Lease, RunRow]:
        assert taken.worker is not None and taken.lease_until is not None
        started = now if row.started_at is None else row.started_at
        _save(connection, taken, stage="", done=0, total=0, started_at=started)
        attempt = {"run_id": taken.id, "fencing": taken.fencing, "worker": taken.worker, "started_at": now}
        connection.execute(attempts.insert().values(**attempt, host=seat.host, runner=seat.runner, image=seat.image))
        lease = Lease(taken.id, taken.fencing, taken.worker, taken.lease_until)
        return lease, run_of(connection.execute(runs.select().where(runs.c.id == taken.id)).one())

    def takable(self, limit: int, *, lease_s: float, quiet_s: float = 0.0) -> list[tuple[int, str]]:
        """Ids and execution keys of at most `limit` runs that can be taken and want a hint, oldest first.

        They count as hinted from now on and are left out for `quiet_s` seconds. Runs whose worker fell silent and that
        are worn out, or whose end was asked for, are closed on the way: no worker needs to be up for that.
        """
        found: list[tuple[int, str]] = []
        with self._database.read() as connection:  # most of the time there is nothing, and no need to lock anyone out
            now = self._database.now(connection)
            query = _unhinted(now, quiet_s)
            if not any(rules.can_take(run_of(row).status, now, lease_s) for row in connection.execute(query)):
                return []
        with self._database.write() as connection:
            now = self._database.now(connection)
            query = _unhinted(now, quiet_s).with_for_update(skip_locked=True)
            for row in [run_of(item) for item in connection.execute(query)]:
                if len(found) == limit:
                    break
                if not rules.can_take(row.status, now, lease_s):
                    continue
                outlook = rules.take(row.status, "", now, lease_s)
                if outlook.state.final:
                    _close_expired(connection, row.status, now, lease_s)
                    _close(connection, outlook, now)
                else:
                    found.append((row.id, row.execution_key))
            ids = [number for number, _key in found]
            connection.execute(runs.update().where(runs.c.id.in_(ids)).values(hinted_at=now))
        return found

    def by_key(self, execution_key: str) -> list[RunRow]:
        """The live runs of a key: one, and one more for each salt under which it was asked for."""
        return self._query(_live(execution_key).order_by(runs.c.id))

    def live(self) -> list[RunRow]:
        """All runs that are queued or running, oldest first."""
        return self._query(runs.select().where(_is_live()).order_by(runs.c.id))

    def beat(self, lease: Lease, *, lease_s: float, progress: tuple[str, int, int] | None = None) -> Lease:
        """Prolong a lease, and record (stage, done, total) when given. Raises LEASE_LOST.

        The lease that comes back tells whether the run is still wanted (`cancel_asked`).
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            run = rules.beat(_locked(connection, lease.run_id).status, lease.fencing, now, lease_s)
            extra = {} if progress is None else dict(zip(("stage", "done", "total"), progress, strict=True))
            _save(connection, run, **extra)
        return replace(lease, until=now + lease_s, cancel_asked=run.cancel_asked)

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
            differs = None if known is None or known.payload == payload else faults.differs(row, known.payload, payload)
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
        """Give a run back, because its worker must stop or the run's end was asked for. Raises LEASE_LOST.

        It is queued again, or cancelled where `cancel_asked`.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            before = _locked(connection, lease.run_id).status
            after = rules.release(before, lease.fencing)
            outcome = Outcome.CANCELLED if after.state.final else Outcome.INTERRUPTED
            _close_attempt(connection, before, outcome, now)
            _close(connection, after, now)

    def lose(self, lease: Lease, error: FarmError) -> None:
        """Give a run back, because what it ran on was lost; it is tried again after a pause. Raises LEASE_LOST.

        It is cancelled where `cancel_asked`, and given up after `max_losses`.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            before = _locked(connection, lease.run_id).status
            after = rules.lose(before, lease.fencing, now)
            _close_attempt(connection, before, Outcome.LOST, now, error=_text(error))
            _close(connection, after, now)

    def keep_log(self, lease: Lease, digest: str) -> None:
        """Record the digest of an attempt's whole log, now in the content store; a lease that is over will do."""
        one = sa.and_(attempts.c.run_id == lease.run_id, attempts.c.fencing == lease.fencing)
        with self._database.write() as connection:
            connection.execute(attempts.update().where(one).values(log=digest))

    def cancel(self, ids: Sequence[int], reason: Reason = Reason.CANCEL_ASKED) -> list[RunRow]:
        """Ask for the end of runs: the queued ones end now, a running one when its worker sees it or falls silent.

        The runs as they are then. Raises RUN_UNKNOWN.
        """
        with self._database.write() as connection:
            now = self._database.now(connection)
            for number in sorted(ids):
                before = _locked(connection, number).status
                after = rules.cancel(before, reason)
                if after != before:
                    _close(connection, after, now)
        return self.select(ids)

    def get(self, number: int) -> RunRow:
        """One run; raises RUN_UNKNOWN."""
        found = self.select([number])
        if not found:
            raise faults.unknown_run(number)
        return found[0]

    def select(self, ids: Sequence[int]) -> list[RunRow]:
        """The runs with these ids that exist, by id."""
        known = [number for number in ids if is_number(number)]
        return self._query(runs.select().where(runs.c.id.in_(known)).order_by(runs.c.id))

    def recent(self, limit: int = 20) -> list[RunRow]:
        """The newest runs, newest first."""
        return self._query(runs.select().order_by(runs.c.id.desc()).limit(limit))

    def attempts(self, number: int) -> list[AttemptRow]:
        """The attempts of a run in their order."""
        if not is_number(number):
            return []
        with self._database.read() as connection:
            query = attempts.select().where(attempts.c.run_id == number).order_by(attempts.c.fencing)
            return [attempt_of(row) for row in connection.execute(query)]

    def cached(self, execution_key: str) -> CacheRow | None:
        """What the cache holds for a key."""
        with self._database.read() as connection:
            row = connection.execute(cache.select().where(cache.c.execution_key == execution_key)).first()
        return None if row is None else cached_of(row)

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
            return [run_of(row) for row in connection.execute(query)]


def _live(execution_key: object) -> sa.Select[tuple[object, ...]]:
    return runs.select().where(runs.c.execution_key == execution_key, _is_live())


def _unhinted(now: float, quiet_s: float) -> sa.Select[tuple[object, ...]]:
    """Live runs without a hint in the last `quiet_s` seconds; one much later than now is from before a clock change."""
    hinted = runs.c.hinted_at.between(now - quiet_s, now + quiet_s)
    return runs.select().where(_is_live(), sa.or_(runs.c.hinted_at.is_(None), ~hinted)).order_by(runs.c.id)


def _is_live() -> sa.ColumnElement[bool]:
    return runs.c.state.in_([state.value for state in rules.LIVE_STATES])


def _locked(connection: Connection, number: int) -> RunRow:
    one = runs.select().where(runs.c.id == number).with_for_update()
    found = connection.execute(one).first() if is_number(number) else None
    if found is None:
        raise faults.unknown_run(number)
    return run_of(found)


def _save(connection: Connection, run: RunStatus, **extra: object) -> None:
    values = {
        "state": run.state.value,
        "reason": run.reason.value,
        "fencing": run.fencing,
        "losses": run.losses,
        "worker": run.worker,
        "lease_until": run.lease_until,
        "not_before": run.not_before,
    }
    connection.execute(runs.update().where(runs.c.id == run.id).values(**values, **extra))


def _close(connection: Connection, run: RunStatus, now: float) -> None:
    """Save a run that may have ended without a result; one that was given up gets its error."""
    if not run.state.final:
        _save(connection, run)
        return
    given_up = {"error": _text(faults.exhausted(run))} if run.reason is Reason.ATTEMPTS_EXHAUSTED else {}
    _save(connection, run, ended_at=now, **given_up)


def _close_expired(connection: Connection, run: RunStatus, now: float, lease_s: float) -> None:
    if rules.expired(run, now, lease_s):
        _close_attempt(connection, run, Outcome.LEASE_EXPIRED, now)


def _end(connection: Connection, run: RunStatus, outcome: Outcome, now: float, error: FarmError) -> None:
    _save(connection, run, ended_at=now, error=_text(error))
    _close_attempt(connection, run, outcome, now, error=_text(error))


def _close_attempt(connection: Connection, run: RunStatus, outcome: Outcome, now: float, **extra: object) -> None:
    one = sa.and_(attempts.c.run_id == run.id, attempts.c.fencing == run.fencing)
    connection.execute(attempts.update().where(one).values(ended_at=now, outcome=outcome.value, **extra))


def _text(error: FarmError) -> str:
    return json.dumps(error.to_json(), sort_keys=True)
