"""`farm status`: what was built, what is under way, and why something is as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from farm.cli import ids, output
from farm.cli.command import Command
from farm.ledger.rules import BuildState
from kernelfarm import canonical
from kernelfarm.errors import FarmError

if TYPE_CHECKING:
    from farm.config import Config
    from farm.ledger.builds import BuildRow, CellRow
    from farm.ledger.ledger import Ledger
    from farm.ledger.nouns import AttemptRow, RunRow
    from farm.ledger.workers import WorkerRow

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
        ledger.builds.settle()
        queue = _Queue.look(ledger, settings)
        if name is None:
            document, text = _latest(ledger, limit, queue)
        else:
            kind, number = ids.parse(name)
            document, text = _build(ledger, number, queue) if kind == "b" else _run(ledger, number, queue)
    if as_json:
        output.print_json(document)
    else:
        click.echo(text)


@dataclass(frozen=True, slots=True)
class _Queue:
    """The live runs, the workers that are up, and the compiles that may run at once; None where each build has its own
    workers."""

    live: list[RunRow]
    workers: list[WorkerRow]
    slots: int | None
    now: float

    @classmethod
    def look(cls, ledger: Ledger, settings: Config) -> _Queue:
        from farm import outlook

        workers = ledger.workers.alive(outlook.SEEN_S)
        slots = outlook.slots_of(workers) if workers or settings.broker is not None else None
        return cls(ledger.runs.live(), workers, slots, ledger.runs.now())

    def why(self, run: RunRow | None) -> str | None:
        """Why a run waits, in words; None for one that does not, or where nobody knows."""
        from farm import forecast

        if run is None or self.slots is None:
            return None
        found = forecast.waiting(run, self.live, self.slots, self.now)
        return None if found is None else found.describe()


def _latest(ledger: Ledger, limit: int, queue: _Queue) -> tuple[Any, str]:
    rows = ledger.builds.recent(limit)
    cells = {row.id: ledger.builds.cells(row.id) for row in rows}
    runs = _runs_of(ledger, [cell for found in cells.values() for cell in found])
    workers = [_worker_json(worker, queue.live) for worker in queue.workers]
    builds = [{**_build_json(row), "cells": _counts(cells[row.id], runs)} for row in rows]
    document = {"schema": "status/1", "builds": builds, "workers": workers}
    table = [
        [
            f"b{row.id}",
            row.state.value,
            _shown(row.created_at),
            _took(row.created_at, row.ended_at, queue.now),
            _done(_counts(cells[row.id], runs)),
            _summary(cells[row.id]),
        ]
        for row in rows
    ]
    lines = [output.table(["build", "state", "started", "took", "done", "cells"], table)]
    if workers:
        shown = [
            [
                one["name"],
                one["host"] or "-",
                one["state"],
                f"{len(one['runs'])}/{one['slots']}",
                ", ".join(one["runs"]),
            ]
            for one in workers
        ]
        lines.append(output.table(["worker", "host", "state", "busy", "runs"], shown))
    return document, "\n\n".join(lines)


def _runs_of(ledger: Ledger, cells: Sequence[CellRow]) -> dict[int, RunRow]:
    return {run.id: run for run in ledger.runs.select([cell.run_id for cell in cells if cell.run_id is not None])}


def _counts(cells: Sequence[CellRow], runs: dict[int, RunRow]) -> dict[str, int]:
    """How many cells are in which state."""
    states = [_cell_state(cell, runs.get(cell.run_id or 0)) for cell in cells]
    return {state: states.count(state) for state in sorted(set(states))}


def _done(counts: dict[str, int]) -> str:
    return f"{counts.get('done', 0)}/{sum(counts.values())}"


def _summary(cells: list[CellRow]) -> str:
    shown = ", ".join(f"{cell.model} {cell.target}" for cell in cells[:3])
    return f"{shown} and {len(cells) - 3} more" if len(cells) > 3 else shown


def _build(ledger: Ledger, number: int, queue: _Queue) -> tuple[Any, str]:
    from farm import apart

    row = ledger.builds.get(number)
    cells = ledger.builds.cells(number)
    runs = _runs_of(ledger, cells)
    found = [_cell_json(cell, runs.get(cell.run_id or 0), queue) for cell in cells]
    document = {**_build_json(row), "schema": "build-status/1", "cells": found}
    table = []
    for item, cell in zip(found, cells, strict=True):
        run = runs.get(cell.run_id or 0)
        took = "-" if run is None or run.started_at is None else _took(run.started_at, run.ended_at, queue.now)
        why = item["waits"] or item["reason"] or "-"
        table.append([cell.model, cell.target, item["state"], item["run"] or "-", item["worker"] or "-", took, why])
    lines = [f"b{row.id} {row.state.value}, started {_shown(row.created_at)}"]
    lines.append(output.table(["model", "target", "state", "run", "worker", "took", "reason"], table))
    errors = [
        output.plain(f"{cell.model} {cell.target}: {error}")
        for cell in cells
        if (error := _error(cell, runs)) is not None
    ]
    resumable = row.state is not BuildState.RUNNING and apart.MARK not in document["request"]
    if resumable and any(item["state"] != "done" for item in found):
        errors.append(f"go on with: farm build --resume b{row.id}")
    return document, "\n".join([*lines, *errors])


def _error(cell: CellRow, runs: dict[int, RunRow]) -> FarmError | None:
    run = runs.get(cell.run_id or 0)
    return cell.failure() if run is None else run.failure()


def _run(ledger: Ledger, number: int, queue: _Queue) -> tuple[Any, str]:
    row = ledger.runs.get(number)
    attempts = ledger.runs.attempts(number)
    waits = queue.why(row)
    shown_attempts = [_attempt_json(item) for item in attempts]
    document = {**run_json(row), "schema": "run-status/1", "waits": waits, "attempts": shown_attempts}
    state = row.status
    lines = [f"r{row.id} {state.state.value} ({waits or state.reason.value}), asked {_shown(row.created_at)}"]
    if row.total and not state.state.final:
        lines.append(f"{row.stage} {row.done}/{row.total}")
    execution = _execution(row)
    lines += [f"recipe key     {row.recipe_key}", f"execution key  {row.execution_key}"]
    lines += [f"runner         {execution['runner']}"] if execution else []
    lines += [f"image          {execution['image']}"] if execution and execution["image"] else []
    table = [
        [
            str(item.fencing),
            item.worker,
            item.host or "-",
            _shown(item.started_at),
            _took(item.started_at, item.ended_at, queue.now),
            item.outcome.value if item.outcome else "working",
            "-" if item.max_rss_bytes is None else output.size(item.max_rss_bytes),
        ]
        for item in attempts
    ]
    lines.append(output.table(["attempt", "worker", "host", "started", "took", "outcome", "memory"], table))
    failure = row.failure()
    return document, "\n".join([*lines, *([output.plain(str(failure))] if failure else [])])


def _execution(row: RunRow) -> dict[str, Any] | None:
    """How the run's action is executed: {"runner", "image", ...}; None for an action that does not say."""
    from farm.ledger import rows

    with rows.believing(f"the action of run r{row.id}"):
        found: Any = json.loads(row.action)
        for name in ("action", "execution"):
            found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _build_json(row: BuildRow) -> dict[str, Any]:
    return {
        "id": f"b{row.id}",
        "state": row.state.value,
        "started_at": _time(row.created_at),
        "ended_at": _time(row.ended_at),
        "request": json.loads(row.request),
    }


def _worker_json(worker: WorkerRow, live: Sequence[RunRow]) -> dict[str, Any]:
    """A worker with its runs: those in the hands of processes that carry its name."""
    from farm.hands import belongs

    own = [run for run in live if belongs(run.status.worker or "", worker.name)]
    return {
        "name": worker.name,
        "host": worker.host,
        "runner": worker.runner,
        "slots": worker.slots,
        "state": "draining" if worker.draining else "up",
        "since": _time(worker.since),
        "runs": [f"r{run.id}" for run in own],
    }


def _cell_state(cell: CellRow, run: RunRow | None) -> str:
    if run is not None:
        return run.status.state.value
    return "done" if cell.cached else "failed"


def _cell_json(cell: CellRow, run: RunRow | None, queue: _Queue) -> dict[str, Any]:
    failure = cell.failure() if run is None else run.failure()
    return {
        "model": cell.model,
        "target": cell.target,
        "execution_key": cell.execution_key,
        "cached": cell.cached,
        "run": None if run is None else f"r{run.id}",
        "state": _cell_state(cell, run),
        "worker": None if run is None else run.status.worker,
        "waits": queue.why(run),
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
        "execution": _execution(row),
        "fencing": row.status.fencing,
        "losses": row.status.losses,
        "cancel_asked": row.status.cancel_asked,
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
        "host": item.host,
        "log": item.log,
        "started_at": _time(item.started_at),
        "ended_at": _time(item.ended_at),
        "outcome": None if item.outcome is None else item.outcome.value,
        "max_rss_bytes": item.max_rss_bytes,
        "error": None if item.error is None else json.loads(item.error),
    }


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _took(start: float, end: float | None, now: float) -> str:
    from farm.forecast import spell

    return spell((now if end is None else end) - start)


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
