"""Workers and builds that are killed, stopped and doubled: one result, under one lease, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.ledger.ledger import Ledger, opened
from farm.ledger.rules import Outcome, Reason
from farm.logs import log_path
from kernelfarm import digest
from kernelfarm.errors import Code
from kernelfarm.nouns import RunState
from kernelfarm.store import ContentStore
from tests.support import farms
from tests.support.farms import Marks, alive, eventually
from tests.support.services import HANG_S

BUILD = Path(farms.__file__).with_name("slow_build.py")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    farms.settings(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def marks(home: Path) -> Marks:
    return farms.marks(home)


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    with opened(home / "ledger.sqlite3") as made:
        yield made


@pytest.fixture
def builds() -> Iterator[list[subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        workers = farms.children(process.pid) if process.poll() is None else []
        for pid in [*workers, process.pid]:  # a stopped worker would not end with its build
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def start(
    builds: list[subprocess.Popen[str]],
    home: Path,
    targets: Sequence[str] = ("x86-64-v3",),
    *,
    lease_s: float = 2.5,
    **extra: str,
) -> subprocess.Popen[str]:
    environment = {**os.environ, "FARM_LEASE_S": str(lease_s), **extra}
    argv = [sys.executable, str(BUILD), str(home), *targets]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    builds.append(process)
    return process


def cells(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def worker_of(pid: int) -> int:
    """The worker process above a compile: the parent of its launcher."""
    return parent(parent(pid))


def stop(pid: int, home: Path) -> None:
    """Stop a worker, though not in the middle of a transaction: that would stop everyone, as SQLite has one writer."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        with contextlib.closing(sqlite3.connect(home / "ledger.sqlite3", timeout=0.3, isolation_level=None)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
            else:
                return


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def outcomes(ledger: Ledger, run: int = 1) -> list[Outcome | None]:
    return [item.outcome for item in ledger.runs.attempts(run)]


def left_over(home: Path) -> list[Path]:
    return [*(home / "cache").iterdir(), *(home / "store" / "tmp").glob("*")]


def test_when_a_worker_is_killed_its_lease_runs_out_and_another_takes_over(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    build = start(builds, home)
    eventually(lambda: len(marks.started()) == 1)
    child = marks.started()[0]
    os.kill(worker_of(child), signal.SIGKILL)
    eventually(lambda: not alive(child))
    eventually(lambda: len(marks.started()) == 2)
    marks.go()
    assert [cell["state"] for cell in cells(build)] == ["done"]
    assert outcomes(ledger) == [Outcome.LEASE_EXPIRED, Outcome.DONE]
    assert ledger.runs.get(1).status.fencing == 2
    assert left_over(home) == []
    # And what it had said is kept as well
    store = ContentStore(home / "store")
    said = [store.get_bytes(digest.parse(each.log or "")) for each in ledger.runs.attempts(1)]
    assert said == [log_path(home / "logs", 1, number).read_bytes() for number in (1, 2)]


def test_a_worker_that_slept_past_its_lease_gets_nothing_in(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    first = start(builds, home)
    eventually(lambda: len(marks.started()) == 1)
    child = marks.started()[0]
    sleeper = worker_of(child)
    # Given a build that sleeps with its worker, and a second build whose worker took the run over
    first.send_signal(signal.SIGSTOP)
    stop(sleeper, home)
    second = start(builds, home)
    eventually(lambda: len(marks.started()) == 2)
    # When the first worker wakes up while the second still works
    os.kill(sleeper, signal.SIGCONT)
    eventually(lambda: not alive(sleeper) and not alive(child))
    first.send_signal(signal.SIGCONT)
    marks.go()
    # Then the run is the second one's alone, and both builds have its result
    assert cells(first) == cells(second)
    assert outcomes(ledger) == [Outcome.LEASE_EXPIRED, Outcome.DONE]
    assert left_over(home) == []


def test_a_worker_that_hangs_is_killed_and_replaced(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    build = start(builds, home)
    eventually(lambda: len(marks.started()) == 1)
    hung = worker_of(marks.started()[0])
    stop(hung, home)
    eventually(lambda: len(marks.started()) == 2)
    eventually(lambda: not alive(hung))
    marks.go()
    assert [cell["state"] for cell in cells(build)] == ["done"]
    assert outcomes(ledger) == [Outcome.LEASE_EXPIRED, Outcome.DONE]
    assert left_over(home) == []


def test_two_builds_of_the_same_thing_run_it_once_and_both_succeed(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    first = start(builds, home, lease_s=20.0)
    eventually(lambda: len(marks.started()) == 1)
    second = start(builds, home, lease_s=20.0)
    marks.go()  # the second waits for the first's run, or is late and finds it done: it never runs it again
    assert [cell["state"] for cell in [*cells(first), *cells(second)]] == ["done", "done"]
    assert len(marks.started()) == 1
    assert outcomes(ledger) == [Outcome.DONE]


def test_when_the_first_build_is_killed_the_second_takes_over(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    first = start(builds, home)
    eventually(lambda: len(marks.started()) == 1)
    child = marks.started()[0]
    second = start(builds, home)
    first.kill()
    eventually(lambda: not alive(child))
    eventually(lambda: len(marks.started()) == 2)
    marks.go()
    assert [cell["state"] for cell in cells(second)] == ["done"]
    assert outcomes(ledger)[-1] is Outcome.DONE
    assert left_over(home) == []


def test_an_interrupted_build_leaves_no_process_and_can_be_run_again(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    build = start(builds, home, ("x86-64-v3", "x86-64-v4"), lease_s=20.0)
    eventually(lambda: len(marks.started()) == 2)
    workers = [worker_of(child) for child in marks.started()]
    build.send_signal(signal.SIGINT)
    build.communicate(timeout=HANG_S)
    assert not any(alive(pid) for pid in [*workers, *marks.started()])
    assert [row.status.state for row in ledger.runs.select([1, 2])] == [RunState.QUEUED, RunState.QUEUED]
    assert outcomes(ledger) == [Outcome.INTERRUPTED]
    assert left_over(home) == []
    marks.go()
    again = cells(start(builds, home, ("x86-64-v3", "x86-64-v4"), lease_s=20.0))
    assert [(cell["state"], cell["run"]) for cell in again] == [("done", 1), ("done", 2)]


def test_the_next_build_takes_everything_from_the_cache(
    home: Path, marks: Marks, builds: list[subprocess.Popen[str]]
) -> None:
    marks.go()
    cells(start(builds, home))
    again = cells(start(builds, home))
    assert [(cell["state"], cell["cached"]) for cell in again] == [("done", True)]
    assert len(marks.started()) == 1


def test_a_child_that_eats_memory_fails_its_cell_and_leaves_nothing(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    marks.misbehave("memory")
    assert [cell["error"] for cell in cells(start(builds, home))] == ["CHILD_MEMORY"]
    assert ledger.runs.get(1).status.reason is Reason.LIMIT_EXCEEDED
    assert outcomes(ledger) == [Outcome.FAILED]
    assert left_over(home) == []


def test_a_child_that_never_ends_fails_its_cell_and_leaves_nothing(
    home: Path, marks: Marks, builds: list[subprocess.Popen[str]]
) -> None:
    marks.misbehave("forever")
    found = cells(start(builds, home, FARM_WALL_S="0.5"))
    assert [cell["error"] for cell in found] == ["CHILD_TIMEOUT"]
    assert not alive(marks.started()[0])
    assert left_over(home) == []


def test_workers_that_cannot_even_start_end_the_build(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    build = start(builds, home, KF_BROKEN="1")
    _out, err = build.communicate(timeout=HANG_S)
    assert build.returncode != 0
    assert Code.WORKER_FAILED.number in err
    assert "this worker is broken" in err
    assert marks.started() == []
    assert ledger.runs.get(1).status.state is RunState.QUEUED


def test_a_run_that_kills_every_worker_is_given_up(
    home: Path, marks: Marks, ledger: Ledger, builds: list[subprocess.Popen[str]]
) -> None:
    build = start(builds, home, lease_s=1.5)
    for count in (1, 2, 3):
        eventually(lambda count=count: len(marks.started()) == count)  # type: ignore[misc]
        os.kill(worker_of(marks.started()[-1]), signal.SIGKILL)
    assert [cell["error"] for cell in cells(build)] == ["ATTEMPTS_EXHAUSTED"]
    assert outcomes(ledger) == [Outcome.LEASE_EXPIRED] * 3
