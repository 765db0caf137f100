"""How a build shows that it goes on: bars on a terminal, lines in a pipe, nothing with --json."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from farm.cli import progress
from farm.ledger.rules import Reason, RunStatus
from farm.ledger.runs import CacheRow, RunRow
from farm.scheduler import Cell
from kernelfarm.nouns import RunState

CACHED = CacheRow("e", "r", "{}", 1, 0.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def cell(state: RunState, done: int = 0, total: int = 0, target: str = "x86-64-v3") -> Cell:
    status = RunStatus(1, state, Reason.TAKEN)
    row = RunRow(status, "e", "r", "", "{}", "group", done, total, None, None, 0.0, None, None)
    return Cell("cls", target, run=row)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (cell(RunState.QUEUED), "waiting"),
        (cell(RunState.RUNNING), "compiling"),
        (cell(RunState.RUNNING, 12, 71), "compiling group 12/71"),
        (cell(RunState.DONE, 71, 71), "done"),
        (Cell("cls", "x86-64-v3", cached=CACHED), "cached"),
    ],
)
def test_what_a_cell_does(shown: Cell, text: str) -> None:
    assert progress.describe(shown) == text


def test_a_line_per_change_of_state_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown(quiet=False) as tell:
        for step in (cell(RunState.QUEUED), cell(RunState.RUNNING), cell(RunState.RUNNING, 1, 2), cell(RunState.DONE)):
            tell([step, Cell("cls", "x86-64-v4", cached=CACHED)])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "cls x86-64-v3: waiting",
        "cls x86-64-v4: cached",
        "cls x86-64-v3: compiling",
        "cls x86-64-v3: done",
    ]


def test_nothing_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown(quiet=True) as tell:
        tell([cell(RunState.RUNNING)])
    assert capsys.readouterr().err == ""


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    markup = replace(cell(RunState.RUNNING, 12, 71), model="[red]cls")
    with progress.shown(quiet=False) as tell:
        tell([markup])
        tell([replace(cell(RunState.DONE), model="[red]cls")])
    text = terminal.getvalue()
    assert "\x1b[" in text
    assert "[red]cls x86-64-v3" in text
