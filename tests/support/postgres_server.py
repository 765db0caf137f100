"""A real PostgreSQL of the tests' own: a cluster in a temporary folder behind a Unix socket, no network.

from tests.support.postgres_server import postgres_server  # a fixture: one server for the whole session
def test_...(postgres_server): address = postgres_server.database()  # a new, empty database
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support import services

_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")
"""A crash of the machine may lose what a test wrote; a crash of the server does not."""


class PostgresServer:
    """One cluster. `listen` is an address to take TCP connections at as well, from the cluster's own network only."""

    def __init__(self, folder: Path, *, listen: str = "") -> None:
        self.folder = folder
        self._listen = listen
        self.port = services.free_port()
        self._user = _user()
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the cluster where it is missing, start the server and wait until it answers."""
        if not (self.folder / "data").exists():
            self.folder.chmod(0o700)
            if os.geteuid() == 0:
                shutil.chown(self.folder, self._user)
            initdb = [_program("initdb"), "-D", str(self.folder / "data"), "-U", "farm", "-A", "trust", "-E", "UTF8"]
            made = self._popen([*initdb, "--no-sync", "--locale=C"])
            assert made.wait() == 0, self._log.read_text(errors="replace")
        settings = [*_FAST, f"listen_addresses={self._listen}", f"unix_socket_directories={self.folder}"]
        options = [word for setting in settings for word in ("-c", setting)]
        argv = [_program("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *options]
        self._process = self._popen(argv)
        services.until(self._answers, "postgres", self._log)

    def kill(self) -> None:
        """SIGKILL, as a crash: the cluster recovers at the next start."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop at once and wait for the end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=services.HANG_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(timeout=services.HANG_S)
            self._process = None

    def database(self) -> str:
        """Make a new, empty database; its address, as FARM_LEDGER_URL takes it."""
        name = f"farm_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"postgresql+psycopg://farm@/{name}?host={self.folder}&port={self.port}"

    @property
    def _log(self) -> Path:
        return self.folder / "postgres.log"

    def _dsn(self, database: str) -> str:
        return f"host={self.folder} port={self.port} user=farm dbname={database}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._dsn("postgres")).close()
        except psycopg.OperationalError:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            return False
        return True

    def _popen(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            extra = {"user": self._user, "extra_groups": []} if os.geteuid() == 0 else {}
            environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment, **extra
            )  # type: ignore[call-overload,no-any-return]


def _user() -> str:
    """Who runs the server: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    services.missing("there is no user that could run PostgreSQL")
    raise AssertionError


def _program(name: str) -> str:
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return services.program(name, "postgresql", *places)


@contextmanager
def running(*, listen: str = "") -> Iterator[PostgresServer]:
    """A server for the time of the block, in a folder of its own whose path is short enough for a socket."""
    _program("postgres")
    folder = Path(tempfile.mkdtemp(prefix="kf-pg-", dir="/tmp"))
    server = PostgresServer(folder, listen=listen)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server; ask it for a database."""
    with running() as server:
        yield server
