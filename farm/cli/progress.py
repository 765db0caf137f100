"""Shows how a build goes on, on standard error: a table that fills in on a terminal, lines in a pipe.

Nothing with `--json`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from farm import forecast
from farm.outlook import Seen
from farm.scheduler import Cell, OnChange, ignore
from kernelfarm.errors import FarmError
from kernelfarm.nouns import RunState

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_WORDS = {
    RunState.QUEUED: "waiting",
    RunState.RUNNING: "compiling",
    RunState.DONE: "done",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
}
_COLOURS = {
    RunState.QUEUED: "dim",
    RunState.RUNNING: "cyan",
    RunState.DONE: "green",
    RunState.FAILED: "red",
    RunState.CANCELLED: "yellow",
}
_LOOK_S = 1.0
"""The ledger is asked for reasons and times at most this often."""


Look = Callable[[Sequence[Cell]], Seen]


def no_more(cells: Sequence[Cell]) -> Seen:
    """A `Look` that tells nothing beyond the cells."""
    del cells
    return Seen()


@contextmanager
def shown(*, quiet: bool, look: Look = no_more, headline: str = "") -> Iterator[OnChange]:
    """What to call with the cells after each change, for the time of the block.

    `look` tells more about them. `headline` is a line that comes first, once there is something to show.
    """
    if quiet:
        yield ignore
    elif sys.stderr.isatty():
        with _Live(look, headline) as live:
            yield live
    else:
        yield Lines(look, headline)


def describe(cell: Cell, seen: Seen) -> str:
    """What a cell does now, in a few words: "cached", "waiting: no worker is up", "group 12/71", "done in 3.2 s"."""
    if cell.cached is not None:
        return "cached"
    run = cell.run
    if run is None:
        return _WORDS[cell.state]
    if cell.state is RunState.RUNNING and run.status.cancel_asked:
        return "being cancelled"
    if cell.state is RunState.RUNNING and run.total:
        return f"{run.stage} {run.done}/{run.total}"
    if cell.state is RunState.DONE and run.seconds is not None:
        return f"done in {run.seconds:.1f} s"
    why = _why(cell, seen)
    return f"{_WORDS[cell.state]}: {why}" if why else _WORDS[cell.state]


def _why(cell: Cell, seen: Seen) -> str:
    """Why a cell waits; empty when nobody knows, or when it does not wait."""
    if cell.trouble or cell.run is None:
        return cell.trouble
    found = seen.waiting.get(cell.run.id)
    return "" if found is None else found.describe()


def summary(cells: Sequence[Cell], seen: Seen) -> str:
    """The whole build in a line: "8 of 24 done, 2 compiling, 14 waiting (no worker is up), about 3 min left"."""
    counts = {state: sum(cell.state is state for cell in cells) for state in RunState}
    parts = [f"{counts[RunState.DONE]} of {len(cells)} done"]
    reasons = sorted({why for cell in cells if (why := _why(cell, seen))})
    for state in (RunState.RUNNING, RunState.QUEUED, RunState.FAILED, RunState.CANCELLED):
        if counts[state]:
            why = f" ({reasons[0]})" if state is RunState.QUEUED and len(reasons) == 1 else ""
            parts.append(f"{counts[state]} {_WORDS[state]}{why}")
    if seen.left_s is not None:
        parts.append(f"about {forecast.spell(seen.left_s)} left")
    return ", ".join(parts)


class Lines:
    """A line when a cell changes its state; the groups in between would fill a log. And how long it takes, once.

    A trouble on the way to the workers is a line for all cells that wait, and its end another.
    """

    def __init__(self, look: Look, headline: str = "") -> None:
        self._look = look
        self._headline = headline
        self._said: dict[tuple[str, str], RunState] = {}
        self._estimated = False
        self._trouble = ""

    def __call__(self, cells: Sequence[Cell]) -> None:
        if self._headline:
            click.echo(self._headline, err=True)
            self._headline = ""
        trouble = next((cell.trouble for cell in cells if cell.trouble), "")
        if trouble != self._trouble:
            click.echo(f"waiting: {trouble}" if trouble else "going on", err=True)
            self._trouble = trouble
        changed = [cell for cell in cells if self._said.get((cell.model, cell.target)) is not cell.state]
        seen = _seen(self._look, cells) if changed else Seen()
        for cell in changed:
            self._said[(cell.model, cell.target)] = cell.state
            word = "compiling" if cell.state is RunState.RUNNING else describe(cell, seen)
            click.echo(f"{cell.model} {cell.target}: {word}", err=True)
        if changed and not self._estimated and seen.left_s is not None:
            self._estimated = True
            click.echo(summary(cells, seen), err=True)


class _Live:
    """The matrix as a table that fills in, drawn by rich several times a second."""

    def __init__(self, look: Look, headline: str) -> None:
        self._look = look
        self._headline = headline
        self._cells: Sequence[Cell] = ()
        self._seen = Seen()
        self._looked_at = -_LOOK_S

    def __enter__(self) -> _Live:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(get_renderable=self._render, console=self._console, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, cells: Sequence[Cell]) -> None:
        if self._headline:
            self._console.print(self._headline, markup=False, highlight=False)
            self._headline = ""
        self._cells = list(cells)

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        cells = self._cells
        if not cells:
            return Text("reading the models")
        if time.monotonic() >= self._looked_at + _LOOK_S:
            self._looked_at = time.monotonic()
            self._seen = _seen(self._look, cells)
        return Group(table(cells, self._seen, self._console), Text(summary(cells, self._seen)))


def table(cells: Sequence[Cell], seen: Seen, console: Console) -> RenderableType:
    """The cells as a matrix of models and targets where that fits into the console, else one below the other."""
    from rich.measure import Measurement
    from rich.table import Table

    models = list(dict.fromkeys(cell.model for cell in cells))
    targets = list(dict.fromkeys(cell.target for cell in cells))
    found = {(cell.model, cell.target): cell for cell in cells}
    matrix = Table(box=None, pad_edge=False)
    matrix.add_column("MODEL", no_wrap=True)
    for target in targets:
        matrix.add_column(target, no_wrap=True)
    for model in models:
        row = [_short(found[(model, target)]) if (model, target) in found else _text("") for target in targets]
        matrix.add_row(_text(model), *row)
    needed = Measurement.get(console, console.options.update(max_width=10_000), matrix).maximum
    if len(targets) > 1 and len(models) > 1 and needed <= console.width:
        return matrix
    rows = Table(box=None, pad_edge=False)
    for name in ("MODEL", "TARGET", "STATE"):
        rows.add_column(name)
    for cell in cells:
        rows.add_row(_text(cell.model), _text(cell.target), _text(describe(cell, seen), _COLOURS[cell.state]))
    return rows


def _short(cell: Cell) -> Text:
    """A cell of the matrix; why it waits stands below."""
    if cell.cached is None and cell.state is RunState.DONE and cell.run is not None and cell.run.seconds is not None:
        return _text(f"{cell.run.seconds:.1f} s", _COLOURS[cell.state])
    return _text(describe(cell, Seen()), _COLOURS[cell.state])


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(words, style=style)


def _seen(look: Look, cells: Sequence[Cell]) -> Seen:
    try:
        return look(cells)
    except FarmError:  # the ledger is away: the build itself will say so
        return Seen()
