"""`farm signer`: the process that holds a key, in the foreground."""

from __future__ import annotations

import math
from pathlib import Path

import click

from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm signer
  farm signer --name release --idle 3600"""


@click.command("signer", cls=Command, epilog=EPILOG)
@click.option("--name", default="default", show_default=True, help="The key to sign with.")
@click.option(
    "--socket", type=click.Path(path_type=Path), help="Where to listen; by default where `farm build` looks for it."
)
@click.option(
    "--idle",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    metavar="SECONDS",
    help="End after so long without a connection; 0 = never.",
)
def command(name: str, socket: Path | None, idle: float) -> None:
    """Hold a key and sign bundles for this user's builds.

    `farm build` starts a signer of its own when none runs. One in the foreground serves many builds, and its log
    shows every request. It hashes a bundle's bytes itself before it signs. Only processes of the same user can reach
    it; it is not an HSM: such a process can also read the key file.
    """
    if math.isnan(idle):  # it compares as within every range
        raise click.BadParameter("nan is no number of seconds", param_hint="--idle")
    from kernelfarm import paths
    from signing import client, keys, server

    home = paths.home().create()
    pair = keys.find(home, name)
    server.serve(server.Settings(socket or client.socket_of(home, name), pair.private, idle))
