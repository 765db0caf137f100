"""What `farm status`, `farm logs`, `farm cancel` and `farm gc` say about runs and the workers of a queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.cli import logs, main
from farm.ledger.builds import CellRow
from farm.ledger.nouns import AttemptRow, RunRow, Seat
from farm.ledger.rules import BuildState, Reason, RunStatus
from farm.logs import log_path
from farm.scheduler import Session
from kernelfarm.nouns import RunState
from tests.support import farms


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FARM_BROKER_URL", raising=False)
    with farms.session(tmp_path / "home") as made:
        yield made


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main(words) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(said(capsys, *words, "--json"))


def detached(farm: Session) -> list[int]:
    """A build of two cells that workers of a queue compile."""
    runs = [farms.submit(farm.ledger, farms.job(farm.store, on=name)) for name in ("x86-64-v3", "x86-64-v4")]
    number = farm.ledger.builds.open({"models": []})
    names = zip(("x86-64-v3", "x86-64-v4"), runs, strict=True)
    cells = [CellRow(number, place, "cls", on, "e", run, False, None) for place, (on, run) in enumerate(names)]
    farm.ledger.builds.add_cells(cells)
    farm.ledger.builds.detach(number)
    return runs


def test_a_queued_run_says_why_it_waits(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a worker with one slot, busy with the first of two runs
    first, second = detached(farm)
    farm.ledger.workers.seen("w1", seat=Seat("b1"), slots=1)
    farm.ledger.runs.take("w1-abcdef", lease_s=60.0, among=[first], seat=Seat("b1"))
    # When somebody asks
    build = document(capsys, "status", "b1")
    # Then the second waits for that worker, and the worker is shown with what it does
    assert [(cell["state"], cell["worker"], cell["waits"]) for cell in build["cells"]] == [
        ("running", "w1-abcdef", None),
        ("queued", None, "all workers are busy"),
    ]
    workers = document(capsys, "status")["workers"]
    assert [(one["name"], one["host"], one["state"], one["runs"]) for one in workers] == [("w1", "b1", "up", ["r1"])]
    assert "all workers are busy" in said(capsys, "status", "b1")
    assert f"r{second} queued (all workers are busy)" in said(capsys, "status", f"r{second}")


def test_a_worker_is_not_shown_with_the_runs_of_another_whose_name_begins_like_its_own(
    farm: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = detached(farm)
    for name, run in (("w10", first), ("w1", second)):
        farm.ledger.workers.seen(name)
        farm.ledger.runs.take(f"{name}-abcdef", lease_s=60.0, among=[run])
    workers = document(capsys, "status")["workers"]
    assert {one["name"]: one["runs"] for one in workers} == {"w1": [f"r{second}"], "w10": [f"r{first}"]}


@pytest.mark.parametrize("action", ["{", "[]", '{"action": 1}', '{"action": {"execution": "none"}}'])
def test_a_damaged_action_is_told_or_left_out(farm: Session, capsys: pytest.CaptureFixture[str], action: str) -> None:
    number = farm.ledger.runs.submit(execution_key="e", recipe_key="r", action=action)[0].id
    status = main.main(["status", f"r{number}", "--json"])
    out, err = capsys.readouterr()
    if action == "{":
        assert status == 1
        assert f"the action of run r{number}" in err
    else:
        assert json.loads(out)["execution"] is None


def test_the_columns_of_builds_and_workers(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    detached(farm)
    farm.ledger.workers.seen("w1", slots=2, draining=True)
    lines = said(capsys, "status").splitlines()
    assert lines[0].split() == ["BUILD", "STATE", "STARTED", "TOOK", "DONE", "CELLS"]
    assert lines[1].split()[:2] == ["b1", "detached"]
    assert "0/2" in lines[1].split()
    assert lines[3].split() == ["WORKER", "HOST", "STATE", "BUSY", "RUNS"]
    assert lines[4].split() == ["w1", "-", "draining", "0/2"]


def test_a_run_shows_its_attempts_with_host_and_memory(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    taken = farm.ledger.runs.take("w1", lease_s=60.0, among=[number], seat=Seat("b1"))
    assert taken is not None
    farm.ledger.runs.finish(taken[0], "{}", max_rss_bytes=3 << 20)
    text = said(capsys, "status", "r1")
    assert "runner         process" in text
    assert text.splitlines()[-1].split()[:3] == ["1", "w1", "b1"]
    assert text.splitlines()[-1].endswith("done     3.0 MiB")


def test_what_is_not_done_can_be_gone_on_with(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    detached(farm)
    farm.ledger.runs.cancel([1, 2])
    text = said(capsys, "status", "b1")
    assert text.startswith("b1 failed")  # settled on the way: all its runs have ended
    assert text.splitlines()[-1] == "go on with: farm build --resume b1"


def test_cancel_says_what_becomes_of_each(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = detached(farm)
    farm.ledger.runs.take("w1", lease_s=60.0, among=[first])
    assert said(capsys, "cancel", "b1").splitlines() == [
        "b1 cancelled",
        "r1 is being cancelled: w1 works on it",
        "r2 cancelled",
    ]
    assert farm.ledger.builds.get(1).state is BuildState.CANCELLED


def test_the_log_of_a_run_whose_files_are_gone_comes_from_the_store(
    farm: Session, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    taken = farm.ledger.runs.take("w1", lease_s=60.0, among=[number])
    assert taken is not None
    farm.ledger.runs.keep_log(taken[0], farm.store.put_bytes(b"compiling\n"))
    assert main.main(["logs", "r1"]) == 0
    assert capfdbinary.readouterr().out == b"compiling\n"


def test_a_log_that_gc_removed_is_said_to_be_gone(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    farms.worker(farm, farms.Compiler()).work([number])
    assert said(capsys, "logs", "r1") == "compiling\n"
    said(capsys, "gc", "--grace-days", "0", "--log-days", "0")
    assert main.main(["logs", "r1"]) == 0
    assert capsys.readouterr() == ("", "the log of attempt 1 was removed by `farm gc`\n")


@pytest.mark.parametrize("kept", [False, True], ids=["file", "store"])
def test_a_log_does_not_drive_the_terminal(
    farm: Session, capfdbinary: pytest.CaptureFixture[bytes], kept: bool
) -> None:
    # Given a log with an escape sequence, a bell, a byte that is no UTF-8, and a letter cut by the size of a read
    letter = b"x" * ((1 << 16) - 1) + "é\n".encode()
    data = letter + b"\x1b]0;owned\x07\x1b[2J\r\x9b \xff\n\tplain\n"
    number = farms.submit(farm.ledger, farms.job(farm.store))
    taken = farm.ledger.runs.take("w1", lease_s=60.0, among=[number])
    assert taken is not None
    path = log_path(farm.settings.home.logs, number, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    if kept:
        farm.ledger.runs.keep_log(taken[0], farm.store.put_file(path))
        path.unlink()
    # When it is shown
    assert main.main(["logs", "r1"]) == 0
    # Then what would act is spelt out, and text is as it was
    shown = capfdbinary.readouterr().out
    assert shown == letter + rb"\x1b]0;owned\x07\x1b[2J\r\x9b \xff" + b"\n" + rb"\tplain" + b"\n"
    if not kept:  # the bytes themselves are in the files that --json names
        assert main.main(["logs", "r1", "--json"]) == 0
        [named] = json.loads(capfdbinary.readouterr().out)["runs"]["r1"]
        assert Path(named).read_bytes() == data


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (RunState.QUEUED, "waits in the queue"),
        (RunState.RUNNING, "attempt 2 at w3 on host b1, runner docker"),
        (RunState.DONE, "done"),
    ],
)
def test_where_a_run_is_that_is_followed(state: RunState, words: str) -> None:
    row = RunRow(RunStatus(1, state, Reason.TAKEN), "e", "r", "", "{}", "", 0, 0, None, None, 0.0, None, None)
    attempt = AttemptRow(1, 2, "w3", 0.0, None, None, None, None, "b1", "docker")
    assert logs.whereabouts(row, [attempt]) == words


def test_gc_tells_what_it_would_remove(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    farm.store.put_bytes(b"junk")
    found = document(capsys, "gc", "--dry-run", "--grace-days", "0")
    assert (found["schema"], found["dry_run"], found["blobs"], found["bytes"]) == ("gc/1", True, 1, 4)
    assert said(capsys, "gc", "--grace-days", "0").startswith("removed 1 blobs (4 B), 0 cache entries")
    assert list(farm.store.digests()) == []


def test_a_run_whose_result_is_cached_needs_no_retry(farm: Session, capsys: pytest.CaptureFixture[str]) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    farms.worker(farm, farms.Compiler()).work([number])
    assert said(capsys, "retry", "r1") == "r1: the cache holds its result\n"


@pytest.mark.parametrize("words", [("retry", "b1"), ("build", "--resume", "b1")])
def test_a_build_of_an_older_farm_cannot_be_resumed(
    farm: Session, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    farm.ledger.builds.open({"models": ["/m.onnx"]})
    assert main.main(words) == 2
    assert "b1 cannot be resumed" in capsys.readouterr().err
