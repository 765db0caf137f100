"""Hints over Celery and Redis: "there may be something to do for this execution key". Nothing more is ever sent.

The only module that knows Celery, kombu and Redis. A hint may come twice, late, or never: the ledger says what is to be
done and its leases who does it, so Redis may be emptied at any moment and nothing is lost. Hence no results, chords,
ETAs, revokes or events; a message is acknowledged when its work has ended, in whatever way.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import redis
from celery import Celery
from celery.exceptions import Reject
from celery.worker import consumer as celery_consumer
from celery.worker import state
from kombu import Message
from kombu.exceptions import KombuError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError

TASK = "farm.run"
QUEUE = "farm"
_ANSWER_S = 5.0
"""What Redis gets to answer; consumers wait for messages in steps of one second, well below."""

Work = Callable[[str], None]
"""What a consumer does with an execution key."""


class NotNow(Exception):
    """Raised by a `Work` that gives a hint back unread, for another worker."""


class Broker:
    """Redis at `url` (redis:// or rediss://), as the place where hints wait.

    `visibility_s`: after so many seconds a message that nobody acknowledged is delivered again. It should be longer
    than any compile; if it is not, the second delivery finds the run taken and ends at once.
    """

    def __init__(self, url: str, *, visibility_s: float = 7200.0) -> None:
        self.address = _shown(url)
        self.app = _application(url, visibility_s)
        self._redis = redis.Redis.from_url(url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(OSError, RedisError, KombuError):
            self.app.close()
            self._redis.close()

    def check(self) -> list[str]:
        """Whether Redis is there and keeps what it is given; warnings about what it may lose in a crash.

        Raises `FarmError` BROKER_UNAVAILABLE; BROKER_POLICY for a server that drops messages when its memory is full.
        """
        with self._answering():
            memory: Any = self._redis.info("memory")
            persistence: Any = self._redis.info("persistence")
        policy = memory.get("maxmemory_policy", "unknown")
        if policy != "noeviction":
            raise FarmError(
                Code.BROKER_POLICY,
                f"Redis at {self.address} may drop messages",
                f"its maxmemory-policy is {policy}, which removes keys when memory is full",
                "Set `maxmemory-policy noeviction` and `appendonly yes` there, or use another Redis.",
            )
        if not persistence.get("aof_enabled"):
            return [f"Redis at {self.address} keeps no append-only file: after a crash its hints come from the ledger"]
        return []

    def publish(self, keys: Iterable[str]) -> None:
        """Send a hint for each execution key. Raises `FarmError` BROKER_UNAVAILABLE."""
        with self._answering():
            for key in keys:
                self.app.send_task(TASK, (key,), queue=QUEUE, retry=False, ignore_result=True)

    def waiting(self) -> list[str]:
        """The execution keys whose hints no worker has fetched yet, the next one last. Raises BROKER_UNAVAILABLE."""
        with self._answering():
            messages: Any = self._redis.lrange(QUEUE, 0, -1)
        return [key for key in map(_key_of, messages) if key is not None]

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, KombuError, OSError) as reason:
            raise FarmError(
                Code.BROKER_UNAVAILABLE,
                f"Redis at {self.address} does not answer",
                str(reason) or type(reason).__name__,
                "Start it, correct FARM_BROKER_URL or --broker, or build without a broker.",
            ) from reason


class Consumer:
    """Fetches hints and works on at most `slots` of them at once, each in a thread of its own."""

    def __init__(self, broker: Broker, work: Work, *, slots: int, name: str) -> None:
        app = broker.app
        app.task(_task(work), name=TASK, acks_late=True, ignore_result=True)
        options = {"pool": "threads", "concurrency": slots, "hostname": name, "queues": [QUEUE]}
        quiet = {"without_mingle": True, "without_gossip": True, "without_heartbeat": True}
        self._worker = app.WorkController(consumer_cls=_Loop, **options, **quiet)

    def run(self) -> None:
        """Work until `stop`, which may have come before; then fetch nothing more and return when all has ended.

        Waits for Redis as long as it is away. To be called in the main thread, once in a process.
        """
        self._worker.start()

    def stop(self) -> None:
        """End `run` in order; may be called from a signal handler or another thread."""
        state.should_stop = os.EX_OK
        self._worker.consumer.wake()


class _Loop(celery_consumer.Consumer):  # type: ignore[misc]
    """Celery's consumer, with an event loop that threads can wake, that redelivers on time and never goes deaf.

    A thread that acknowledges a message only leaves a note; asleep, the loop would read it, and fetch the next message,
    up to a second later. Kombu looks for messages whose time is over every 100 seconds, however short that time is. And
    an acknowledgement that fails because Redis is away is logged and forgotten: the message would count as being worked
    on for ever, and a worker with one slot would fetch no other.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._broken = False
        super().__init__(*args, **kwargs)
        # What somebody else wrote into the list is no message: it is gone, and the loop has to be entered anew.
        known: tuple[type[Exception], ...] = self.conninfo.connection_errors
        self.connection_errors = (*known, ValueError, KeyError, TypeError, AttributeError)

    def register_with_event_loop(self, hub: Any) -> None:
        """Called at each connection to the broker, with an empty loop."""
        super().register_with_event_loop(hub)
        self._broken = False
        hub.add_reader(self._read_end, self._woken)
        visibility_s = self.app.conf.broker_transport_options["visibility_timeout"]
        hub.call_repeatedly(min(10.0, visibility_s / 5), self._redeliver)

    def call_soon(self, p: Any, *args: Any, **kwargs: Any) -> Any:
        """As Celery's, and the loop does it now."""
        promise = super().call_soon(self._do, p, *args, **kwargs)
        self.wake()
        return promise

    def _do(self, p: Any, *args: Any, **kwargs: Any) -> None:
        p(*args, **kwargs)
        message = getattr(p, "__self__", None)
        if isinstance(message, Message) and not message.acknowledged and not self._broken:
            self._broken = True
            raise RedisConnectionError("a message could not be acknowledged")  # Celery connects anew, with free slots

    def wake(self) -> None:
        """End the loop's sleep, from any thread."""
        with contextlib.suppress(BlockingIOError):  # full: it is awake
            os.write(self._write_end, b".")

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._read_end, 4096)

    def _redeliver(self) -> None:
        channel = self.task_consumer.channel
        channel.qos.restore_visible(num=channel.unacked_restore_limit, interval=1)


def _application(url: str, visibility_s: float) -> Celery:
    app = Celery("farm", broker=url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "visibility_timeout": visibility_s,
            "socket_connect_timeout": _ANSWER_S,
            "socket_timeout": _ANSWER_S,
            "socket_keepalive": True,
        },
        result_backend=None,
        task_acks_late=True,
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_reject_on_worker_lost=True,
        task_serializer="json",
        task_store_errors_even_if_ignored=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,  # they hold a lease, which is what counts
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_prefetch_multiplier=1,
    )
    return app


def _task(work: Work) -> Callable[[str], None]:
    def run(key: str) -> None:
        try:
            digest.parse(key)
        except FarmError:
            return  # not from this farm
        try:
            work(key)
        except NotNow as reason:
            raise Reject(str(reason), requeue=True) from reason

    return run


def _key_of(message: bytes) -> str | None:
    """The execution key in a message as kombu stores it; None for what is none of ours."""
    try:
        body = json.loads(base64.b64decode(json.loads(message)["body"]))
        return digest.parse(body[0][0])
    except (ValueError, KeyError, IndexError, TypeError, FarmError):
        return None


def _shown(url: str) -> str:
    """An address without its password. Raises `FarmError` USAGE for one that is not of a Redis."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        why = "it must be redis://HOST:PORT/NUMBER, or rediss:// for TLS"
        raise FarmError(
            Code.USAGE, "the address of the broker cannot be used", why, "Correct FARM_BROKER_URL or --broker."
        )
    return f"{parts.scheme}://{parts.hostname}:{port or 6379}{parts.path}"
