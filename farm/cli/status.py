"""`farm status`: what was built, what is under way, and why something is as it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from farm.cli import ids, output
from farm.cli.command import Command
from kernelfarm import canonical
from kernelfarm.errors import FarmError

if TYPE_CHECKING:
    from farm.ledger.builds import BuildRow, CellRow
    from farm.ledger.ledger import Ledger
    from farm.ledger.runs import AttemptRow, RunRow

EPILOG = """\b
Examples:
  farm status
  farm status b7
  farm status r12 --json"""


@click.command("status", cls=Command, epilog=EPILOG)
@click.argument("name", required=False, metavar="[ID]")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Builds to list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str | None, limit: int, as_json: bool) -> None:
    """List the latest builds, or show the build or run ID with its cells or attempts."""
    from farm import alive, config
    from farm.ledger.ledger import opened

    settings = config.load()
    settings.home.create()
    with opened(settings.ledger) as ledger:
        alive.bury(ledger, settings.home.run)
        if name is None:
            document, text = _latest(ledger, limit)
        else:
            kind, number = ids.parse(name)
            document, text = _build(ledger, number) if kind == "b" else _run(ledger, number)
    if as_json:
        output.print_json(document)
    else:
        click.echo(text)


def _latest(ledger: Ledger, limit: int) -> tuple[Any, str]:
    rows = ledger.builds.recent(limit)
    cells = {row.id: ledger.builds.cells(row.id) for row in rows}
    document = {"schema": "status/1", "builds": [_build_json(row) for row in rows]}
    table = [[f"b{row.id}", row.state.value, _shown(row.created_at), _summary(cells[row.id])] for row in rows]
    return document, output.table(["build", "state", "started", "cells"], table)


def _summary(cells: list[CellRow]) -> str:
    shown = ", ".join(f"{cell.model} {cell.target}" for cell in cells[:3])
    return f"{shown} and {len(cells) - 3} more" if len(cells) > 3 else shown


def _build(ledger: Ledger, number: int) -> tuple[Any, str]:
    row = ledger.builds.get(number)
    cells = ledger.builds.cells(number)
    runs = {run.id: run for run in ledger.runs.select([cell.run_id for cell in cells if cell.run_id is not None])}
    found = [_cell_json(cell, runs.get(cell.run_id or 0)) for cell in cells]
    document = {**_build_json(row), "schema": "build-status/1", "cells": found}
    table = [
        [item["model"], item["target"], item["state"], item["run"] or "-", item["reason"] or "-"] for item in found
    ]
    lines = [f"b{row.id} {row.state.value}, started {_shown(row.created_at)}"]
    lines.append(output.table(["model", "target", "state", "run", "reason"], table))
    errors = [
        output.plain(f"{cell.model} {cell.target}: {error}")
        for cell in cells
        if (error := _error(cell, runs)) is not None
    ]
    return document, "\n".join([*lines, *errors])


def _error(cell: CellRow, runs: dict[int, RunRow]) -> FarmError | None:
    run = runs.get(cell.run_id or 0)
    return cell.failure() if run is None else run.failure()


def _run(ledger: Ledger, number: int) -> tuple[Any, str]:
    row = ledger.runs.get(number)
    attempts = ledger.runs.attempts(number)
    document = {**run_json(row), "schema": "run-status/1", "attempts": [_attempt_json(item) for item in attempts]}
    state = row.status
    lines = [f"r{row.id} {state.state.value} ({state.reason.value}), asked {_shown(row.created_at)}"]
    if row.total and not state.state.final:
        lines.append(f"{row.stage} {row.done}/{row.total}")
    lines += [f"recipe key     {row.recipe_key}", f"execution key  {row.execution_key}"]
    table = [
        [str(item.fencing), item.worker, _shown(item.started_at), item.outcome.value if item.outcome else "working"]
        for item in attempts
    ]
    lines.append(output.table(["attempt", "worker", "started", "outcome"], table))
    failure = row.failure()
    return document, "\n".join([*lines, *([output.plain(str(failure))] if failure else [])])


def _build_json(row: BuildRow) -> dict[str, Any]:
    return {
        "id": f"b{row.id}",
        "state": row.state.value,
        "started_at": _time(row.created_at),
        "ended_at": _time(row.ended_at),
        "request": json.loads(row.request),
    }


def _cell_json(cell: CellRow, run: RunRow | None) -> dict[str, Any]:
    failure = cell.failure() if run is None else run.failure()
    without_run = "done" if cell.cached else "failed"
    return {
        "model": cell.model,
        "target": cell.target,
        "execution_key": cell.execution_key,
        "cached": cell.cached,
        "run": None if run is None else f"r{run.id}",
        "state": without_run if run is None else run.status.state.value,
        "reason": ("cached" if cell.cached else None) if run is None else run.status.reason.value,
        "error": None if failure is None else failure.to_json(),
    }


def run_json(row: RunRow) -> dict[str, Any]:
    """A run as a JSON object."""
    failure = row.failure()
    return {
        "id": f"r{row.id}",
        "state": row.status.state.value,
        "reason": row.status.reason.value,
        "recipe_key": row.recipe_key,
        "execution_key": row.execution_key,
        "fencing": row.status.fencing,
        "worker": row.status.worker,
        "progress": {"stage": row.stage, "done": row.done, "total": row.total},
        "payload": row.payload and canonical.loads(row.payload.encode(), name=f"the payload of r{row.id}"),
        "seconds": row.seconds,
        "created_at": _time(row.created_at),
        "started_at": _time(row.started_at),
        "ended_at": _time(row.ended_at),
        "error": None if failure is None else failure.to_json(),
    }


def _attempt_json(item: AttemptRow) -> dict[str, Any]:
    return {
        "fencing": item.fencing,
        "worker": item.worker,
        "started_at": _time(item.started_at),
        "ended_at": _time(item.ended_at),
        "outcome": None if item.outcome is None else item.outcome.value,
        "max_rss_bytes": item.max_rss_bytes,
        "error": None if item.error is None else json.loads(item.error),
    }


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
