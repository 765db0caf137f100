"""One database behind the ledger: connections, transactions, time, and the errors of drivers as coded errors."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from farm.ledger import migrate
from farm.ledger.tables import HEAD
from kernelfarm import files
from kernelfarm.errors import Code, FarmError

BUSY_S = 30.0
"""How long a SQLite transaction waits for another process's before it gives up."""

Clock = Callable[[], float]

# Primary result codes of SQLite (https://www.sqlite.org/rescode.html) and what they mean for a person.
_SQLITE_CODES = {
    8: (Code.READ_ONLY, "Make the folder writable, or point FARM_HOME at another."),
    10: (Code.LEDGER_UNAVAILABLE, "Check the disk with `farm doctor`."),
    11: (Code.LEDGER_CORRUPT, "Move the ledger file away; the farm makes a new one and compiles again."),
    13: (Code.DISK_FULL, "Free some space, then run the same command again."),
    26: (Code.LEDGER_CORRUPT, "Move the ledger file away; the farm makes a new one and compiles again."),
}


_FULL = 13
_IO_ERROR = 10
_ROOM = 1 << 20
"""SQLite's files beside the ledger grow by less than this at once."""


class Database:
    """Transactions over SQLite or PostgreSQL. `clock` gives seconds since 1970 UTC and is only for tests."""

    def __init__(self, address: Path | str, *, clock: Clock | None = None) -> None:
        is_file = isinstance(address, Path)
        self._clock = clock
        try:
            self.url = sa.URL.create("sqlite", database=str(address)) if is_file else sa.make_url(str(address))
            self.sqlite = self.url.get_backend_name() == "sqlite"
            self.engine = _sqlite_engine(self.url) if self.sqlite else sa.create_engine(self.url)
        except (SQLAlchemyError, ImportError, ValueError) as reason:  # not an address, or of a database without driver
            raise FarmError(
                Code.LEDGER_UNAVAILABLE,
                "the address of the ledger cannot be used",
                str(reason),
                "Unset FARM_LEDGER_URL, correct it, or install the driver that it names.",
            ) from reason

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads; on SQLite it never waits for writers."""
        with self._guard(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that commits at its end, or rolls back on any error; SQLite's write lock is taken at once."""
        with self._guard(), self.engine.connect() as plain:
            connection = plain.execution_options(farm_begin="IMMEDIATE")
            with connection.begin():
                yield connection

    def now(self, connection: Connection) -> float:
        """Seconds since 1970 UTC by the one clock that all users of this ledger share: the host's, or the server's."""
        if self._clock is not None:
            return self._clock()
        if self.sqlite:
            return time.time()
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def migrate(self) -> None:
        """Bring the tables to the newest revision; concurrent callers wait for one another."""
        with self._guard():
            if self.revision() == HEAD:
                return
            if not self.sqlite:
                with self.write() as connection:
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(1262900306)"))  # "KFAR"
                    migrate.upgrade(connection)
                return
            with files.locked(self._file()), self.engine.connect() as plain:
                _raw(plain).execute("PRAGMA journal_mode=WAL")  # outside a transaction; the file remembers it
                _raw(plain).execute("PRAGMA foreign_keys=OFF")  # a table that is made anew is gone for a moment
                connection = plain.execution_options(farm_begin="IMMEDIATE")
                with connection.begin():
                    migrate.upgrade(connection)

    def describe(self) -> str:
        """What lies behind the ledger, without a password: "SQLite 3.40.1", "PostgreSQL 15.6 at host:5432/farm".

        Raises `FarmError` LEDGER_UNAVAILABLE.
        """
        with self._guard(), self.engine.connect() as connection:
            found = connection.dialect.server_version_info or ()
        version = ".".join(map(str, found))
        if self.sqlite:
            return f"SQLite {version}"
        place = f"{self.url.host or 'a local socket'}{f':{self.url.port}' if self.url.port else ''}"
        return f"PostgreSQL {version} at {place}/{self.url.database}"

    def revision(self) -> str | None:
        """Revision of the tables; None for an empty or absent database (which this call does not make)."""
        if self.sqlite and self.url.database not in (None, "", ":memory:") and not self._file().exists():
            return None
        with self.read() as connection:
            return migrate.revision_of(connection)

    def close(self) -> None:
        """Close pooled connections."""
        self.engine.dispose()

    def _coded(self, error: DBAPIError) -> FarmError:
        number = getattr(error.orig, "sqlite_errorcode", None)
        code, advice = Code.LEDGER_UNAVAILABLE, "See `farm doctor`."
        if isinstance(number, int):
            kind = number & 0xFF
            if kind == _IO_ERROR and self._is_full():  # SQLite says no more of a file that it maps into memory
                kind = _FULL
            code, advice = _SQLITE_CODES.get(kind, (code, advice))
        detail = {"ledger": self.url.render_as_string(hide_password=True)}
        return FarmError(code, "the ledger cannot be used", str(error.orig), advice, detail=detail)

    def _is_full(self) -> bool:
        try:
            return shutil.disk_usage(self._file().parent).free < _ROOM
        except OSError:
            return False

    def _file(self) -> Path:
        return Path(str(self.url.database))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._coded(error) from error
        except SQLAlchemyError as error:
            advice = "Check it with `farm doctor`."
            raise FarmError(Code.LEDGER_UNAVAILABLE, "the ledger cannot be used", str(error), advice) from error


def _sqlite_engine(url: sa.URL) -> Engine:
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_S})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        del record
        connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('farm_begin', 'DEFERRED')}")

    return engine


def _raw(connection: Connection) -> Any:
    return connection.connection.driver_connection
