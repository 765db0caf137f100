"""How a build shows that it goes on: a table on a terminal, lines in a pipe, nothing with --json."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from farm.cli import progress
from farm.forecast import Wait, Waiting
from farm.ledger import rules
from farm.ledger.nouns import CacheRow, RunRow
from farm.ledger.rules import Reason, RunStatus
from farm.outlook import Seen
from farm.scheduler import Cell
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState

CACHED = CacheRow("e", "r", "{}", 1, 0.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def cell(
    state: RunState, done: int = 0, total: int = 0, target: str = "x86-64-v3", *, number: int = 1, model: str = "cls"
) -> Cell:
    status = RunStatus(number, state, Reason.TAKEN)
    ended = 3.25 if state is RunState.DONE else None
    row = RunRow(status, "e", "r", "", "{}", "group", done, total, None, None, 0.0, 0.0, ended)
    return Cell(model, target, run=row)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (cell(RunState.QUEUED), "waiting"),
        (cell(RunState.QUEUED, number=2), "waiting: no worker is up"),
        (cell(RunState.QUEUED, number=3), "waiting: its worker was lost; again in 12 s"),
        (cell(RunState.QUEUED, number=4), "waiting: 5 ahead"),
        (cell(RunState.RUNNING), "compiling"),
        (cell(RunState.RUNNING, 12, 71), "group 12/71"),
        (cell(RunState.DONE, 71, 71), "done in 3.2 s"),
        (cell(RunState.CANCELLED), "cancelled"),
        (Cell("cls", "x86-64-v3", cached=CACHED), "cached"),
    ],
)
def test_what_a_cell_does(shown: Cell, text: str) -> None:
    waiting = {2: Waiting(Wait.NO_WORKER), 3: Waiting(Wait.PAUSE, seconds=12.1), 4: Waiting(Wait.BEHIND, ahead=5)}
    assert progress.describe(shown, Seen(waiting)) == text


def test_a_running_cell_that_is_to_end_says_so() -> None:
    running = cell(RunState.RUNNING, 12, 71)
    assert running.run is not None
    asked = replace(running, run=replace(running.run, status=rules.cancel(running.run.status)))
    assert progress.describe(asked, Seen()) == "being cancelled"


def test_the_whole_build_in_a_line() -> None:
    cells = [cell(RunState.DONE), Cell("cls", "x86-64-v4", cached=CACHED), cell(RunState.RUNNING)]
    cells += [cell(RunState.QUEUED, number=2), cell(RunState.QUEUED, number=3), cell(RunState.FAILED)]
    why = Waiting(Wait.NO_WORKER)
    assert progress.summary(cells, Seen({2: why, 3: why}, left_s=181.0)) == (
        "2 of 6 done, 1 compiling, 2 waiting (no worker is up), 1 failed, about 3 min left"
    )


def test_a_trouble_on_the_way_to_the_workers_is_a_line_and_its_end_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    queued = cell(RunState.QUEUED, number=2)
    held_up = replace(queued, trouble="Redis does not answer")
    running = cell(RunState.RUNNING, 1, 9, target="x86-64-v4")
    with progress.shown(quiet=False) as tell:
        for cells in ([queued, running], [held_up, running], [held_up, running], [queued, running]):
            tell(cells)
    assert capsys.readouterr().err.splitlines() == [
        "cls x86-64-v3: waiting",
        "cls x86-64-v4: compiling",
        "waiting: Redis does not answer",
        "going on",
    ]
    no_worker = Seen({2: Waiting(Wait.NO_WORKER)})
    assert progress.describe(held_up, no_worker) == "waiting: Redis does not answer"
    assert (
        progress.summary([held_up, running], no_worker) == "0 of 2 done, 1 compiling, 1 waiting (Redis does not answer)"
    )


def test_a_line_per_change_of_state_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    def look(cells: Sequence[Cell]) -> Seen:
        del cells
        return Seen({1: Waiting(Wait.NO_WORKER)}, left_s=8.0)

    with progress.shown(quiet=False, look=look) as tell:
        for step in (cell(RunState.QUEUED), cell(RunState.RUNNING), cell(RunState.RUNNING, 1, 2), cell(RunState.DONE)):
            tell([step, Cell("cls", "x86-64-v4", cached=CACHED)])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "cls x86-64-v3: waiting: no worker is up",
        "cls x86-64-v4: cached",
        "1 of 2 done, 1 waiting (no worker is up), about 8 s left",
        "cls x86-64-v3: compiling",
        "cls x86-64-v3: done in 3.2 s",
    ]


def test_a_ledger_that_is_away_does_not_end_the_view(capsys: pytest.CaptureFixture[str]) -> None:
    def look(cells: Sequence[Cell]) -> Seen:
        del cells
        raise FarmError(Code.LEDGER_UNAVAILABLE, "away")

    with progress.shown(quiet=False, look=look) as tell:
        tell([cell(RunState.QUEUED)])
    assert capsys.readouterr().err == "cls x86-64-v3: waiting\n"


def test_nothing_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown(quiet=True) as tell:
        tell([cell(RunState.RUNNING)])
    assert capsys.readouterr().err == ""


def drawn(cells: Sequence[Cell], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(progress.table(cells, Seen(), console))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


MATRIX = [
    cell(RunState.DONE, target="aarch64", model="cls"),
    cell(RunState.RUNNING, 12, 71, target="x86-64-v3", model="cls"),
    Cell("det", "aarch64", cached=CACHED),
    cell(RunState.FAILED, target="x86-64-v3", model="det"),
]


def test_the_matrix_of_models_and_targets() -> None:
    assert drawn(MATRIX, 80) == [
        "MODEL  aarch64  x86-64-v3",
        "cls    3.2 s    group 12/71",
        "det    cached   failed",
    ]


def test_where_the_matrix_does_not_fit_its_cells_stand_below_each_other() -> None:
    assert drawn(MATRIX, 26)[0] == "MODEL  TARGET    STATE"
    assert drawn(MATRIX[:2], 80) == [
        "MODEL  TARGET     STATE",
        "cls    aarch64    done in 3.2 s",
        "cls    x86-64-v3  group 12/71",
    ]


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    markup = replace(cell(RunState.RUNNING, 12, 71), model="[red]cls")
    with progress.shown(quiet=False) as tell:
        tell([markup])
    text = terminal.getvalue()
    assert "\x1b[" in text
    assert "[red]cls" in text
    assert "0 of 1 done, 1 compiling" in text
