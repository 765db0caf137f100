"""`farm retry`: try again what failed or was cancelled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from farm.cli import ids, output
from farm.cli.build import carry_out
from farm.cli.command import Command
from kernelfarm.errors import FarmError, Status

if TYPE_CHECKING:
    from farm.scheduler import Cell, Session

EPILOG = """\b
Examples:
  farm retry b7
  farm retry r12 --json

A failure of the compiler comes back until its cause is gone. Nobody needs to retry after a worker was lost: the farm
does so by itself."""


@click.command("retry", cls=Command, epilog=EPILOG)
@click.argument("name", metavar="ID")
@click.option("--broker", metavar="URL", help="Redis whose workers compile, else FARM_BROKER_URL.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str, broker: str | None, as_json: bool) -> int:
    """Compile what is not done of the build ID and write its bundles, or compile the run ID again.

    A run that is done needs no retry; one that is under way is waited for.
    """
    from farm import build, config, scheduler

    kind, number = ids.parse(name)
    settings = config.load()
    with scheduler.session(replace(settings, broker=broker or settings.broker)) as farm:
        if kind == "b":
            order, out, key = build.resumed(farm.ledger.builds.get(number))
            return carry_out(farm, order, out, key, resume=number, as_json=as_json)
        cell = again(farm, number, quiet=as_json)
    if as_json:
        output.print_json(_document(number, cell))
    elif cell.error is None:
        click.echo(f"{name}: the cache holds its result" if cell.run is None else f"r{cell.run.id} {cell.state.value}")
    if cell.error is None:
        return int(Status.DONE)
    if not as_json:
        output.show_error(cell.error)
    return int(cell.error.status)


def again(farm: Session, number: int, *, quiet: bool) -> Cell:
    """Compile the job of a run unless the cache holds what it gives; the cell. Raises `FarmError` RUN_UNKNOWN."""
    from farm import apart, scheduler
    from farm.actions import Job
    from farm.cli import progress
    from farm.outlook import Outlook
    from kernelfarm import canonical

    row = farm.ledger.runs.get(number)
    job = canonical.decode(Job, row.action.encode(), name=f"the job of run r{number}")
    with (
        progress.shown(quiet=quiet, look=Outlook(farm, 1).look) as on_change,
        apart.wanting(farm, {"run": f"r{number}"}) as begin,
    ):
        (cell,) = scheduler.compile_jobs(
            farm, [job], workers=1, use_cache=not row.salt, on_begin=begin, on_change=on_change
        )
    return cell


def _document(number: int, cell: Cell) -> dict[str, Any]:
    error: FarmError | None = cell.error
    return {
        "schema": "retry/1",
        "run": f"r{number}",
        "again": None if cell.run is None else f"r{cell.run.id}",
        "cached": cell.cached is not None,
        "state": cell.state.value,
        "payload": None if cell.payload is None else cell.payload.digest,
        "error": None if error is None else error.to_json(),
    }
