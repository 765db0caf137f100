"""Compiles that belong to no `farm build`: those of `farm check`, `farm bench` and `farm retry` of a run.

While they go on the ledger holds a build for them, whose process can be seen to live. So their runs are wanted, and are
let go of when the command is broken off, even by SIGKILL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from farm import alive
from farm.ledger.builds import CellRow
from farm.ledger.rules import BuildState
from farm.scheduler import Cell, OnChange, Session
from kernelfarm.nouns import RunState

MARK = "apart"
"""In the request of such a build; it cannot be resumed."""


@contextmanager
def wanting(farm: Session, request: dict[str, Any]) -> Iterator[OnChange]:
    """Inside the block the runs of the cells that `on_begin` gets are wanted; cells without a run need no build.

    `request` is what was asked, as JSON. Raises `FarmError` LEDGER_* or of the disk.
    """
    builds, folder = farm.ledger.builds, farm.settings.home.run
    numbers: list[int] = []
    with ExitStack() as stack:

        def begin(cells: Sequence[Cell]) -> None:
            if all(cell.run is None for cell in cells):
                return
            number = builds.open({**request, MARK: True}, alive.place(folder))
            numbers.append(number)
            stack.enter_context(alive.holding(folder, number))
            builds.resume(number, alive.place(folder))  # it may have been taken for dead a moment ago
            builds.add_cells(rows_of(number, cells))

        state = BuildState.INTERRUPTED
        alive.bury(farm.ledger, folder)
        try:
            yield begin
            state = _outcome(farm, numbers)
        finally:
            for number in numbers:
                alive.let_go(farm.ledger, number, state)


def _outcome(farm: Session, numbers: Sequence[int]) -> BuildState:
    ids = [cell.run_id for number in numbers for cell in farm.ledger.builds.cells(number) if cell.run_id is not None]
    done = all(run.status.state is RunState.DONE for run in farm.ledger.runs.select(ids))
    return BuildState.DONE if done else BuildState.FAILED


def rows_of(number: int, cells: Sequence[Cell]) -> list[CellRow]:
    """The cells of the build `number` as the ledger keeps them."""
    return [
        CellRow(
            build_id=number,
            position=position,
            model=cell.model,
            target=cell.target,
            execution_key=None if cell.job is None else cell.job.action.execution_key,
            run_id=None if cell.run is None else cell.run.id,
            cached=cell.cached is not None,
            error=None if cell.error is None else json.dumps(cell.error.to_json(), sort_keys=True),
        )
        for position, cell in enumerate(cells)
    ]
