"""Workers that serve a queue, as they announce themselves: a view for people, nothing depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from farm.ledger import rows
from farm.ledger.database import Database
from farm.ledger.nouns import NOWHERE, Seat
from farm.ledger.tables import workers

_FORGET_S = 3600.0
"""A worker that was not seen for so long has died."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A long-lived worker: `slots` compiles at once; `draining` takes nothing more. Times in seconds since 1970 UTC."""

    name: str
    host: str
    runner: str
    image: str | None
    slots: int
    since: float
    seen_at: float
    draining: bool


class Workers:
    """Operations on the list of workers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def seen(self, name: str, *, seat: Seat = NOWHERE, slots: int = 1, draining: bool = False) -> None:
        """Record that a worker is there now; call it again every few seconds."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            values: dict[str, object] = {"host": seat.host, "runner": seat.runner, "image": seat.image, "slots": slots}
            values |= {"seen_at": now, "draining": draining}
            connection.execute(workers.delete().where(~workers.c.seen_at.between(now - _FORGET_S, now + _FORGET_S)))
            known = connection.execute(workers.update().where(workers.c.name == name).values(**values)).rowcount
            if not known:
                connection.execute(workers.insert().values(name=name, since=now, **values))

    def gone(self, name: str) -> None:
        """Record that a worker has ended."""
        with self._database.write() as connection:
            connection.execute(workers.delete().where(workers.c.name == name))

    def alive(self, within_s: float) -> list[WorkerRow]:
        """The workers that were seen within the last `within_s` seconds, by name."""
        with self._database.read() as connection:
            now = self._database.now(connection)
            fresh = workers.c.seen_at.between(now - within_s, now + within_s)
            found = connection.execute(workers.select().where(fresh).order_by(workers.c.name)).all()
        return [rows.read(WorkerRow, row._mapping, f"worker {row.name}") for row in found]
