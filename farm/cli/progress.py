"""Shows how a build goes on, on standard error: bars on a terminal, lines in a pipe, nothing with `--json`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from farm.scheduler import Cell, OnChange, ignore
from kernelfarm.nouns import RunState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_WORDS = {
    RunState.QUEUED: "waiting",
    RunState.RUNNING: "compiling",
    RunState.DONE: "done",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
}


@contextmanager
def shown(*, quiet: bool) -> Iterator[OnChange]:
    """What to call with the cells after each change, for the time of the block."""
    if quiet:
        yield ignore
    elif sys.stderr.isatty():
        with _Bars() as bars:
            yield bars
    else:
        yield Lines()


def describe(cell: Cell) -> str:
    """What a cell does now, in a word or two: "cached", "compiling group 12/71", "failed"."""
    if cell.cached is not None:
        return "cached"
    if cell.state is RunState.RUNNING and cell.run is not None and cell.run.total:
        return f"compiling {cell.run.stage} {cell.run.done}/{cell.run.total}"
    return _WORDS[cell.state]


class Lines:
    """A line when a cell changes its state; the groups in between would fill a log."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], str] = {}

    def __call__(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            word = "cached" if cell.cached is not None else _WORDS[cell.state]
            key = (cell.model, cell.target)
            if self._said.get(key) != word:
                self._said[key] = word
                click.echo(f"{cell.model} {cell.target}: {word}", err=True)


class _Bars:
    """A bar per cell, drawn by rich."""

    def __enter__(self) -> _Bars:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[word]}"),
            TimeElapsedColumn(),
        )
        self._progress: Progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, cells: Sequence[Cell]) -> None:
        from rich.markup import escape

        for cell in cells:
            key = (cell.model, cell.target)
            if key not in self._tasks:
                self._tasks[key] = self._progress.add_task(escape(f"{cell.model} {cell.target}"), total=None, word="")
            done, total = (cell.run.done, cell.run.total) if cell.run is not None else (0, 0)
            if cell.state.final:
                done = total = max(total, 1)
            self._progress.update(self._tasks[key], completed=done, total=total or None, word=escape(describe(cell)))
