"""`farm cancel`: end builds and runs that nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from farm.cli import ids, output
from farm.cli.command import Command

if TYPE_CHECKING:
    from farm.ledger.ledger import Ledger
    from farm.ledger.nouns import RunRow

EPILOG = """\b
Examples:
  farm cancel b7
  farm cancel r12 r13 --json

It is a fact of the ledger, so that no worker needs to be up. A run that is being compiled ends as soon as its worker
sees it, within seconds. What is compiled already stays in the cache."""


@click.command("cancel", cls=Command, epilog=EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Cancel the runs ID, or the builds ID with those of their runs that no other build wants."""
    from farm import config
    from farm.ledger.ledger import opened

    asked = [ids.parse(name) for name in names]
    settings = config.load()
    settings.home.create()
    with opened(settings.ledger) as ledger:
        for kind, number in asked:  # all of them are there, or nothing is cancelled
            _ = ledger.builds.get(number).id if kind == "b" else ledger.runs.get(number).id
        builds = [number for kind, number in asked if kind == "b"]
        runs = cancel(ledger, builds, [number for kind, number in asked if kind == "r"])
        states = {f"b{number}": ledger.builds.get(number).state.value for number in builds}
    if as_json:
        output.print_json(_document(states, runs))
        return
    for name, state in states.items():
        click.echo(f"{name} {state}")
    for run in runs:
        click.echo(f"r{run.id} {_what(run)}")


def cancel(ledger: Ledger, builds: Sequence[int], runs: Sequence[int]) -> list[RunRow]:
    """Cancel builds, and runs; the runs as they are then, by id."""
    from farm.ledger.rules import BuildState

    ids_of_runs = set(runs)
    for number in builds:
        ids_of_runs.update(ledger.builds.close(number, BuildState.CANCELLED))
    return ledger.runs.cancel(sorted(ids_of_runs))


def _what(run: RunRow) -> str:
    status = run.status
    if not status.state.final:
        return f"is being cancelled: {status.worker} works on it"
    return status.state.value


def _document(states: dict[str, str], runs: Sequence[RunRow]) -> dict[str, Any]:
    return {
        "schema": "cancel/1",
        "builds": states,
        "runs": {
            f"r{run.id}": {"state": run.status.state.value, "cancel_asked": run.status.cancel_asked} for run in runs
        },
    }
