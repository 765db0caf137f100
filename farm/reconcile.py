"""Makes the broker agree with the ledger: whatever can be taken has a hint that waits.

Hints are lost when Redis loses its memory, when a worker dies with them, when nobody could reach Redis as a run was
asked for. Every waiting build and every worker looks for such runs; the ledger keeps them from doing it all at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from farm.config import Config
from farm.ledger import rules
from farm.ledger.ledger import Ledger
from farm.queue import Broker
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.scheduler import Session

_BATCH = 1000
"""Runs that one turn looks after; the oldest come first."""


def missing(takable: Sequence[tuple[int, str]], waiting: Sequence[str]) -> list[str]:
    """The execution keys of the takable runs (id, key) that no hint waits for; oldest run first, each key once."""
    known = set(waiting)
    return list(dict.fromkeys(key for _run, key in takable if key not in known))


def once(ledger: Ledger, broker: Broker, settings: Config) -> int:
    """Send the hints that are missing; how many. Raises `FarmError` BROKER_UNAVAILABLE or LEDGER_*.

    Runs that are worn out, or that were cancelled while their worker died, are closed on the way.
    """
    takable = ledger.runs.takable(_BATCH, lease_s=settings.lease_s, quiet_s=settings.reconcile_s)
    keys = missing(takable, broker.waiting()) if takable else []
    broker.publish(keys)
    return len(keys)


class Rounds:
    """Does something every few seconds in a thread of its own, inside a `with` block.

    A `FarmError` of it goes to `say` as text, once until it has worked again; the next turn tries again.
    """

    def __init__(self, turn: Callable[[], object], period_s: float, say: Callable[[str], None]) -> None:
        self._turn = turn
        self._period_s = period_s
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)

    def __enter__(self) -> Rounds:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        said = ""
        while True:
            try:
                self._turn()
                said = ""
            except FarmError as error:
                if str(error) != said:
                    said = str(error)
                    self._say(said)
            if self._stop.wait(self._period_s):
                return


def require_broker(settings: Config) -> None:
    """Raise `FarmError` BROKER_* unless the broker of the settings answers and keeps what it is given.

    For a build before it asks for its first run; later a broker may be away for a while.
    """
    assert settings.broker is not None
    broker = Broker(settings.broker, visibility_s=settings.redelivery_s)
    try:
        broker.check()
    finally:
        broker.close()


class Hints:
    """In place of a build's own workers: keeps hints waiting for its runs, which workers elsewhere compile."""

    def __init__(self, farm: Session, runs: Sequence[int]) -> None:
        self.runs = runs
        self.trouble = ""
        self._ledger = farm.ledger
        self._settings = farm.settings
        assert farm.settings.broker is not None
        self._broker = Broker(farm.settings.broker, visibility_s=farm.settings.redelivery_s)
        self._next = 0.0

    def __enter__(self) -> Hints:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.close()

    def tend(self, statuses: Sequence[rules.RunStatus], now: float) -> None:
        """Called while the build waits. A broker that is away for a while is `trouble`, and no error."""
        del statuses, now
        if time.monotonic() < self._next:
            return
        try:
            once(self._ledger, self._broker, self._settings)
            if self.trouble:  # there may have been nothing to send
                self._broker.check()
            self.trouble = ""
        except FarmError as error:
            if error.code is not Code.BROKER_UNAVAILABLE:
                raise
            self.trouble = error.what
        self._next = time.monotonic() + self._settings.reconcile_s
