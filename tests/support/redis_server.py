"""A real Redis of a test's own: private port, private folder, append-only file; it can be killed and come back.

from tests.support.redis_server import redis_server  # a fixture: a server for each test
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.exceptions import RedisError

from tests.support import services

POLICY = ("--maxmemory-policy", "noeviction", "--appendonly", "yes", "--appendfsync", "everysec")


class RedisServer:
    """One server; `url` is the address that the farm takes as its broker, and stays the same over a restart."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port = services.free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._options = options or POLICY
        self._program = services.program("redis-server", "redis-server")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it has read its file and answers."""
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        with (self.folder / "redis.log").open("ab") as log:
            argv = [self._program, *place, *self._options]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        services.until(self._answers, "redis-server", self.folder / "redis.log")

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self) -> redis.Redis:
        """A connection for the test itself."""
        return redis.Redis(host="127.0.0.1", port=self.port, decode_responses=True)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except RedisError:
            return False


@contextmanager
def running(folder: Path, *options: str) -> Iterator[RedisServer]:
    """A server in `folder` for the time of the block; `options` replace `POLICY`."""
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running server with the farm's policy, of this test alone."""
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server
