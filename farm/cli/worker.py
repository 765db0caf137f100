"""`farm worker`: serve a queue."""

from __future__ import annotations

import os
from pathlib import Path

import click

from farm.cli import worker_identities
from farm.cli.command import Group

EPILOG = """\b
Examples:
  farm worker --broker redis://localhost:6379/0 --slots 2
  farm build model.onnx -t x86-64-v3 --broker redis://localhost:6379/0

SIGTERM lets the runs that are under way come to their end; a second one gives them back to the queue."""


@click.group("worker", cls=Group, invoke_without_command=True, epilog=EPILOG)
@click.option("--broker", metavar="URL", envvar="FARM_BROKER_URL", help="Redis that carries the hints.")
@click.option("--slots", type=click.IntRange(1, 256), default=1, show_default=True, help="Compiles at once.")
@click.option("--name", metavar="NAME", help="Name of this worker; host, process and chance otherwise.")
@click.option("--gate", metavar="URL", envvar="FARM_GATE", help="Work for a farm on another host, through its gate.")
@click.option(
    "--identity",
    type=click.Path(path_type=Path),
    envvar="FARM_IDENTITY",
    help="Identity file of this host, made by `farm worker enrol`; with --gate.",
)
@click.pass_context
def command(
    ctx: click.Context, broker: str | None, slots: int, name: str | None, gate: str | None, identity: Path | None
) -> int:
    """Compile what builds ask for, until told to stop.

    Each run is compiled in a process of its own. The worker shares state folder and ledger with the builds; one on
    another host goes through a gate.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if gate is not None:
        return _remote(gate, identity, slots)
    return _serve(broker, slots, name)


for _each in worker_identities.COMMANDS:
    command.add_command(_each)


def _serve(address: str | None, slots: int, name: str | None) -> int:
    from farm import config, station
    from kernelfarm.errors import Code, FarmError

    if address is None:
        why = "neither --broker nor FARM_BROKER_URL is given"
        advice = "Name a Redis: `farm worker --broker redis://localhost:6379/0`."
        raise FarmError(Code.USAGE, "a worker needs a broker", why, advice)
    if name is not None and ":" in name:
        why = "names with a colon belong to workers on other hosts"
        raise FarmError(Code.USAGE, f"{name!r} cannot be a worker's name", why, "Choose another --name.")
    station.serve(config.load(), address, slots=slots, name=name, say=say)
    return 0


def _remote(gate: str, identity: Path | None, slots: int) -> int:
    from farm.gate import host
    from kernelfarm.errors import Code, FarmError

    if identity is None:
        advice = "Make one on the farm's host with `farm worker enrol NAME`."
        raise FarmError(Code.USAGE, "a worker at a gate needs --identity", next_step=advice)
    return host.run(gate=gate, identity=identity, tasks=slots)


def say(line: str) -> None:
    """A line on standard error; safe in a signal handler and from any thread."""
    os.write(2, f"{line}\n".encode())
