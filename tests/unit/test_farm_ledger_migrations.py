"""The ledger's tables: made by migrations, the same as the code thinks, and every fault of the database has a code."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
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


def test_migrations_make_exactly_the_tables_of_the_code(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger.sqlite3") as ledger, ledger.database.read() as connection:
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
    tmp_path: Path, table: str, column: str, kind: type[RunState]
) -> None:
    with opened(tmp_path / "ledger.sqlite3") as ledger, ledger.database.read() as connection:
        checks = {item["name"]: item["sqltext"] for item in sa.inspect(connection).get_check_constraints(table)}
    words = {word.strip(" '") for word in checks[f"ck_{table}_{column}"].split("(")[1].rstrip(")").split(",")}
    assert words == {member.value for member in kind}


def test_opening_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with opened(path) as ledger:
        number = ledger.builds.open({"models": []})
    with opened(path) as ledger:
        assert ledger.builds.get(number).id == 1


def test_ten_processes_may_make_the_ledger_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    numbers: list[int] = []

    def use() -> None:
        with opened(path) as ledger:
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
