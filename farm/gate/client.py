"""A worker's side of the gate: the operations of `WorkerRuns` over HTTPS, blobs through the registry."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from farm import blobs, https
from farm.actions import Job
from farm.blobs import Repository
from farm.gate import authority, identities, messages, tokens
from farm.gate.messages import (
    Beat,
    Beaten,
    Empty,
    Fail,
    Finish,
    Grant,
    Held,
    Lose,
    Offer,
    Take,
    Taken,
    Token,
    Welcome,
)
from farm.https import Peer, Response
from farm.ledger import rules
from farm.ledger.nouns import NOWHERE, Seat
from farm.ledger.rules import Lease, Reason
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Payload
from kernelfarm.store import ContentStore

Noun = TypeVar("Noun")

WAIT_S = 5.0
"""How long one question for a run waits; so long may a worker that drains take to end."""
PATIENCE_S = 120.0
"""How long a settled run's news are tried to be told while the gate is away."""
_RETRY_S = 1.0
_FETCH_READ_S = 900.0
"""The gate fetches a whole result before it answers."""
_FOLLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Granted:
    """A run as the gate granted it (`farm.worker_runs.TakenRun`)."""

    id: int
    action: str
    salt: str


class Gate:
    """The gate at `url`, spoken to as the worker of an identity file. Raises as `Peer` and what the gate answers."""

    def __init__(self, url: str, identity: Path) -> None:
        self._identity = identities.require_private(identity)
        self._peer = Peer(
            url, name=authority.GATE, authority=identity, identity=identity, unreachable=Code.GATE_UNREACHABLE
        )

    def hello(self) -> Welcome:
        """Who we are to the gate."""
        return self.ask(messages.HELLO, Empty(), Welcome)

    def registry(self, url: str) -> Peer:
        """The registry that the gate names."""
        return Peer(
            url,
            name=authority.REGISTRY,
            authority=self._identity,
            identity=self._identity,
            unreachable=Code.REGISTRY_UNREACHABLE,
        )

    def ask(self, path: str, noun: object, kind: type[Noun], *, read_s: float = https.READ_S) -> Noun:
        """The gate's answer to a message; its refusal is raised."""
        data = canonical.encode(noun)
        with self._peer.ask("POST", path, data=data, headers=_JSON, read_s=read_s) as answer:
            found = https.body(answer)
            if answer.status_code != HTTPStatus.OK:
                raise _refusal(answer, found)
            return canonical.decode(kind, found, name="the gate's answer")

    def log(self, held: Held, offset: int, data: bytes) -> None:
        """Send a piece of a log."""
        numbers = {"run": str(held.run), "fencing": str(held.fencing), "offset": str(offset)}
        with self._peer.ask("POST", messages.LOG, data=data, params=numbers) as answer:
            if answer.status_code != HTTPStatus.OK:
                raise _refusal(answer, https.body(answer))


class GateRuns:
    """The runs behind a gate, for a worker of one run at a time. `draining` set: nothing more is taken.

    `require_current` raises when the offer is not true any more: a worker that would fail every run must take none.
    """

    def __init__(
        self,
        gate: Gate,
        welcome: Welcome,
        offer: Offer,
        store: ContentStore,
        host: str,
        require_current: Callable[[], None],
    ) -> None:
        self.draining = threading.Event()
        self._gate = gate
        self._registry = gate.registry(welcome.registry)
        self._welcome = welcome
        self._offer = offer
        self._store = store
        self._host = host
        self._require_current = require_current
        self._token: Callable[[], str] = str

    def take(
        self, worker: str, *, lease_s: float, among: Sequence[int], seat: Seat = NOWHERE
    ) -> tuple[Lease, Granted] | None:
        """Ask for a run, for at most WAIT_S; None when there was none. The gate decides what is taken, for how long."""
        del lease_s, among, seat
        if self.draining.is_set():
            return None
        self._require_current()
        asked = Take(self._offer, WAIT_S, self._host)
        grant = self._gate.ask(messages.TAKE, asked, Taken).grant
        if grant is None:
            return None
        lease = Lease(grant.run, grant.fencing, worker, grant.until)
        self._token = self._token_for(grant)
        if self.draining.is_set():
            self.release(lease)
            return None
        return lease, Granted(grant.run, grant.action, grant.salt)

    def beat(self, lease: Lease, *, lease_s: float, progress: tuple[str, int, int] | None = None) -> Lease:
        """Prolong a lease."""
        del lease_s
        try:
            answer = self._gate.ask(messages.BEAT, Beat(_held(lease), progress), Beaten)
        except FarmError as error:
            if error.code is Code.GATE_REFUSED:  # revoked: nothing that we would bring counts any more
                raise rules.lease_lost(lease.run_id, error.why) from error
            raise
        return Lease(lease.run_id, lease.fencing, lease.worker, answer.until, answer.cancel_asked)

    def finish(self, lease: Lease, payload: str, *, max_rss_bytes: int | None = None) -> object:
        """Bring the payload's files into the registry, and have the gate fetch them."""
        found = canonical.decode(Payload, payload.encode(), name="the payload")
        results = self._repository(tokens.results_of(self._welcome.worker))

        def send() -> None:
            for entry in found.files:
                results.put(self._store, entry.digest)

        _patiently(send)
        return self._tell(messages.FINISH, Finish(_held(lease), found, max_rss_bytes), read_s=_FETCH_READ_S)

    def fail(self, lease: Lease, reason: Reason, error: FarmError) -> None:
        """Close the run as failed."""
        self._tell(messages.FAIL, Fail(_held(lease), reason, _text(error)))

    def release(self, lease: Lease) -> None:
        """Give the run back."""
        self._tell(messages.RELEASE, _held(lease))

    def lose(self, lease: Lease, error: FarmError) -> None:
        """Give the run back because of a loss."""
        self._tell(messages.LOSE, Lose(_held(lease), _text(error)))

    @contextlib.contextmanager
    def surround(self, lease: Lease, job: Job, log: Path) -> Iterator[None]:
        """Have a job's inputs in the store; send the log while the block runs."""
        inputs = self._repository(tokens.INPUTS)
        with files.temp_folder(log.parent) as scratch:
            for digest, size in job.inputs:
                _patiently(partial(blobs.fill, self._store, inputs, digest, size, scratch))
        with _Follower(self._gate, _held(lease), log):
            yield

    def _tell(self, path: str, noun: object, *, read_s: float = https.READ_S) -> Empty:
        return _patiently(lambda: self._gate.ask(path, noun, Empty, read_s=read_s))

    def _token_for(self, grant: Grant) -> Callable[[], str]:
        held = Held(grant.run, grant.fencing)
        return blobs.Token(lambda: self._gate.ask(messages.TOKEN, held, Token).token, self._welcome.token_life_s)

    def _repository(self, name: str) -> Repository:
        return Repository(self._registry, name, self._token)


class _Follower:
    """Sends a growing log to the gate, in a thread, and its rest at the end. A log that cannot be sent stops no run."""

    def __init__(self, gate: Gate, held: Held, log: Path) -> None:
        self._gate = gate
        self._held = held
        self._log = log
        self._sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(FarmError, OSError):
            self._send()

    def _run(self) -> None:
        while not self._stop.wait(_FOLLOW_S):
            with contextlib.suppress(FarmError, OSError):
                self._send()

    def _send(self) -> None:
        with self._log.open("rb") as stream:
            stream.seek(self._sent)
            while self._sent < messages.LOG_LIMIT and (piece := stream.read(messages.LOG_PIECE)):
                self._gate.log(self._held, self._sent, piece)
                self._sent += len(piece)


def _patiently(work: Callable[[], Noun]) -> Noun:
    """What `work` gives, tried again while the gate or the registry is away, for PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except FarmError as error:
            if error.status is not Status.ENVIRONMENT or time.monotonic() >= end:
                raise
        time.sleep(_RETRY_S)


def _held(lease: Lease) -> Held:
    return Held(lease.run_id, lease.fencing)


def _text(error: FarmError) -> str:
    """The error as text that the gate takes; its detail is dropped when it is too long."""
    text = json.dumps(error.to_json(), sort_keys=True)
    if len(text) <= messages.ERROR_LIMIT:
        return text
    short = FarmError(error.code, error.what[:1000], error.why[:1000], error.next_step[:1000])
    return json.dumps(short.to_json(), sort_keys=True)


def _refusal(answer: Response, found: bytes) -> FarmError:
    try:
        error = FarmError.from_json(json.loads(found)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        error = FarmError(Code.INTERNAL, "not an error")
    if error.code is Code.INTERNAL:
        why = f"it answers {answer.status_code} without an error that can be read"
        return FarmError(Code.GATE_PROTOCOL, "the gate's answer is malformed", why, "Do both sides run the same farm?")
    return error


_JSON = {"Content-Type": "application/json"}
