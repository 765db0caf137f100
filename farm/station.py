"""`farm worker`: a long-lived process that takes hints and starts a worker process for each run that it finds.

The station never compiles: each run gets a fresh process (`farm.worker`) in a session of its own, which dies with the
station. What Redis, Celery or the station do to a message changes nothing about who may compile: the lease decides.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from farm import hands, logs, reconcile, runners
from farm.config import Config
from farm.hands import Hand, Hands
from farm.ledger import rules
from farm.ledger.ledger import Ledger
from farm.ledger.nouns import RunRow, Seat
from farm.queue import Broker, Consumer, NotNow
from farm.reconcile import Rounds
from farm.scheduler import WORKER, cores, session
from kernelfarm import files
from kernelfarm.errors import Code, FarmError
from kernelfarm.store import ContentStore

_SEEN_S = 5.0
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Say = Callable[[str], None]


def silent(line: str) -> None:
    """A `Say` that says nothing."""
    del line


def default_name() -> str:
    """A name that no other station has: host, process, and chance."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


@dataclass
class Station:
    """Takes hints from `broker` until it is told to stop; at most `slots` worker processes at once.

    `argv` is the program of a worker process, `say` gets a line for the person who looks on.
    """

    settings: Config
    ledger: Ledger
    broker: Broker
    slots: int
    name: str = field(default_factory=default_name)
    argv: Sequence[str] = WORKER
    say: Say = silent

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._hints = self._begun = 0
        self._busy: set[str] = set()
        self._futile = 0
        self._failure: FarmError | None = None
        self._draining = False
        self._giving_back = False
        self._seen_at = -_SEEN_S
        log = self.settings.home.worker_log
        self._hands = Hands(self.argv, self.name, max(1, cores() // self.slots), log)
        self._consumer = Consumer(self.broker, self.work, slots=self.slots, name=self.name)

    def run(self) -> None:
        """Serve until a signal says stop: the first lets what runs come to its end, the second gives it back.

        Raises `FarmError` WORKER_FAILED when worker processes cannot work. To be called in the main thread.
        """
        with _signals(self._signalled), self._hands, Rounds(self._round, self.settings.reconcile_s, self.say):
            self.say(f"{self.name} takes up to {self.slots} at once from {self.broker.address}")
            self._consumer.run()
        self.ledger.workers.gone(self.name)
        self.say(f"stopped after {self._hints} hints and {self._begun} runs")
        self._sweep()
        if self._failure is not None:
            raise self._failure
        if not self._draining:
            why = "Celery's consumer ended by itself"
            raise FarmError(Code.WORKER_FAILED, f"{self.name} fetches no hints any more", why, "Start it again.")

    def work(self, key: str) -> None:
        """Work on what can be taken of an execution key; comes back when that has ended, whatever the end.

        Raises `NotNow` when the station is to stop.
        """
        with self._lock:
            self._hints += 1
            if self._draining:
                raise NotNow("this worker is about to stop")
            if key in self._busy:  # a second hint
                return
            self._busy.add(key)
        try:
            ready = self._takable(self.ledger.runs.by_key(key))
            if ready:
                self._work_on(ready)
        except FarmError as error:  # the ledger is away, or there is no process to be had: the ledger will hint again
            self.say(str(error))
        finally:
            with self._lock:
                self._busy.remove(key)

    def _work_on(self, runs: Sequence[int]) -> None:
        names = ", ".join(f"r{run}" for run in runs)
        before = self._takings(self.ledger.runs.select(runs))
        hand = self._hands.take(runs)
        self._begun += len(runs)
        self.say(f"{names} begins")
        began = time.monotonic()
        status = self._wait(hand, runs)
        rows = self.ledger.runs.select(runs)
        self.say(f"{names} {', '.join(row.status.state.value for row in rows)} after {time.monotonic() - began:.1f} s")
        if status:
            self._sweep()
            home = self.settings.home
            logs.keep_of(self.ledger.runs, ContentStore(home.store), home.logs, hand.name, runs)
        self._judge(hand.name, status, self._takings(rows) > before or not self._takable(rows))

    def _wait(self, hand: Hand, runs: Sequence[int]) -> int:
        """Wait for a worker process; one that lets its lease run out, or does not give its run back, is killed."""
        told_at: float | None = None
        while True:
            if self._giving_back and told_at is None:
                told_at = time.monotonic()
                hand.process.terminate()
            try:
                return hand.process.wait(timeout=min(1.0, self.settings.beat_s))
            except subprocess.TimeoutExpired:
                late = told_at is not None and time.monotonic() > told_at + hands.PATIENCE_S
                if late or self._is_stuck(hand.name, runs):
                    hand.process.kill()

    def _is_stuck(self, name: str, runs: Sequence[int]) -> bool:
        try:
            statuses = [row.status for row in self.ledger.runs.select(runs)]
            return bool(rules.stuck(statuses, self.ledger.runs.now(), [name], self.settings.beat_s))
        except FarmError:  # the ledger is away, for the worker process too
            return False

    def _takable(self, rows: Sequence[RunRow]) -> list[int]:
        now = self.ledger.runs.now()
        return [row.id for row in rows if rules.can_take(row.status, now, self.settings.lease_s)]

    def _takings(self, rows: Sequence[RunRow]) -> int:
        return sum(row.status.fencing for row in rows)

    def _judge(self, name: str, status: int, worked: bool) -> None:
        with self._lock:
            self._futile = 0 if worked or self._giving_back else self._futile + 1
            if self._futile < hands.FUTILE_LIMIT:
                return
            self._failure = hands.futile(self.settings.home.worker_log, name, status)
        self._drain()

    def _round(self) -> None:
        if time.monotonic() >= self._seen_at + _SEEN_S:
            self._seen_at = time.monotonic()
            self._sweep()
            self.ledger.workers.seen(
                self.name, seat=Seat(host=socket.gethostname()), slots=self.slots, draining=self._draining
            )
            self.ledger.builds.settle()
        reconcile.once(self.ledger, self.broker, self.settings)

    def _sweep(self) -> None:
        """End and remove what dead workers left."""
        files.sweep(self.settings.home.cache)
        runners.sweep(self.settings.home)

    def _signalled(self) -> None:
        if self._draining:
            self._give_back()
        else:
            self._drain()

    def _drain(self) -> None:
        self._draining = True
        running = len(self._busy)
        more = "; another signal gives them back" if running else ""
        self.say(f"stopping after {running} runs under way{more}")
        self._consumer.stop()

    def _give_back(self) -> None:
        self._giving_back = True  # the threads that wait tell their processes


def serve(
    settings: Config,
    address: str,
    *,
    slots: int,
    name: str | None = None,
    argv: Sequence[str] = WORKER,
    say: Say = silent,
) -> None:
    """Be a station at the broker `address` until told to stop. Raises `FarmError` BROKER_*, WORKER_FAILED, LEDGER_*."""
    with session(settings) as farm, Broker(address, visibility_s=settings.redelivery_s) as broker:
        for warning in broker.check():
            say(f"warning: {warning}")
        station = Station(settings, farm.ledger, broker, slots, name or default_name(), argv, say)
        station.run()


@contextmanager
def _signals(react: Callable[[], None]) -> Iterator[None]:
    """Call `react` on every signal that asks for the end, for the time of the block."""

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        react()

    before = {number: signal.signal(number, handle) for number in _STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
