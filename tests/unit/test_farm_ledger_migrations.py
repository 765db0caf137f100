"""The ledger's tables: made by migrations, the same as the code thinks, and every fault of the database has a code."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from farm.ledger import tables
from farm.ledger.database import Database
from farm.ledger.ledger import opened
from farm.ledger.rules import BuildState, Outcome, Reason
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState


def test_head_is_alembics_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", "farm.ledger:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == tables.HEAD


def test_migrations_make_exactly_the_tables_of_the_code(ledger_address: Path | str) -> None:
    with opened(ledger_address) as ledger, ledger.database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("runs", "state", RunState),
        ("runs", "reason", Reason),
        ("attempts", "outcome", Outcome),
        ("builds", "state", BuildState),
    ],
)
def test_the_checks_of_the_database_hold_exactly_the_members_of_the_code(
    ledger_address: Path | str, table: str, column: str, kind: type[RunState]
) -> None:
    with opened(ledger_address) as ledger, ledger.database.read() as connection:
        checks = {item["name"]: item["sqltext"] for item in sa.inspect(connection).get_check_constraints(table)}
    assert set(re.findall("'([^']*)'", checks[f"ck_{table}_{column}"])) == {member.value for member in kind}


def test_a_ledger_of_the_first_revision_keeps_what_it_holds(ledger_address: Path | str) -> None:
    # Given a ledger of the first revision: a build whose cells wait for a queued, a running and a worn-out run
    database = Database(ledger_address)
    with database.write() as connection:
        command.upgrade(_alembic(connection), "0001")
        columns = "id, execution_key, recipe_key, salt, action, state, reason, attempts, max_attempts, fencing, stage"
        for values in (
            "1, 'e1', 'r', '', '{}', 'queued', 'interrupted', 1, 3, 2, ''",
            "2, 'e2', 'r', '', '{}', 'running', 'taken', 2, 3, 2, ''",
            "3, 'e3', 'r', '', '{}', 'failed', 'attempts-exhausted', 3, 3, 3, ''",
            "4, 'e4', 'r', '', '{}', 'done', 'compiled', 1, 3, 1, ''",
        ):
            connection.execute(
                sa.text(f"INSERT INTO runs ({columns}, done, total, created_at) VALUES ({values}, 0, 0, 1)")
            )
        for table, values in (
            ("attempts (run_id, fencing, worker, started_at)", "2, 2, 'w', 1"),
            ("cache", "'e4', 'r', '{}', 4, 1"),
            ("builds (id, request, state, created_at)", "1, '{}', 'running', 1"),
            ("cells (build_id, position, model, target, run_id, cached)", "1, 0, 'm', 't', 1, false"),
        ):
            connection.execute(sa.text(f"INSERT INTO {table} VALUES ({values})"))
    database.close()
    # When this farm opens it
    with opened(ledger_address) as ledger:
        # Then every row is there, and only what was lost counts as lost
        assert [(row.id, row.status.losses) for row in ledger.runs.select([1, 2, 3, 4])] == [
            (1, 1),
            (2, 1),
            (3, 3),
            (4, 0),
        ]
        assert ledger.runs.attempts(2)[0].worker == "w"
        assert ledger.runs.cached("e4") is not None
        assert ledger.builds.cells(1)[0].run_id == 1
        # And the constraints hold still: one live run of a key, no cell of a run that is not there
        with pytest.raises(FarmError), ledger.database.write() as connection:
            connection.execute(sa.text("UPDATE runs SET execution_key = 'e1' WHERE id = 2"))
        with pytest.raises(FarmError), ledger.database.write() as connection:
            connection.execute(sa.text("UPDATE cells SET run_id = 99"))
        if ledger.database.sqlite:
            with ledger.database.read() as connection:
                assert connection.execute(sa.text("PRAGMA foreign_key_check")).all() == []


def _alembic(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "farm.ledger:migrations")
    config.attributes["connection"] = connection
    return config


def test_opening_twice_changes_nothing(ledger_address: Path | str) -> None:
    with opened(ledger_address) as ledger:
        number = ledger.builds.open({"models": []})
    with opened(ledger_address) as ledger:
        assert ledger.builds.get(number).id == 1


def test_ten_processes_may_make_the_ledger_at_once(ledger_address: Path | str) -> None:
    numbers: list[int] = []

    def use() -> None:
        with opened(ledger_address) as ledger:
            numbers.append(ledger.builds.open({}))

    threads = [threading.Thread(target=use) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 11))


def test_the_ledger_lies_in_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a place? with %20 and 目录#"
    folder.mkdir()
    with opened(folder / "ledger.sqlite3") as ledger:
        ledger.builds.open({})
    assert (folder / "ledger.sqlite3").is_file()


def test_asking_for_the_revision_makes_no_file(tmp_path: Path) -> None:
    database = Database(tmp_path / "ledger.sqlite3")
    assert database.revision() is None
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_of_a_newer_farm_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with opened(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(FarmError) as caught, opened(path):
        pass
    assert caught.value.code is Code.LEDGER_NEWER


def test_a_file_that_is_no_ledger_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(FarmError) as caught, opened(path):
        pass
    assert caught.value.code is Code.LEDGER_CORRUPT


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FarmError) as caught, opened(tmp_path / "ledger.sqlite3"):
        pass
    assert caught.value.status == 3


def test_a_file_where_the_folder_should_be_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FarmError) as caught, opened(tmp_path / "file" / "ledger.sqlite3"):
        pass
    assert caught.value.status == 3


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger.sqlite3") as ledger:
        with pytest.raises(RuntimeError), ledger.database.write() as connection:
            connection.execute(tables.builds.insert().values(request="{}", state="running", created_at=1.0))
            raise RuntimeError
        assert ledger.builds.recent() == []
