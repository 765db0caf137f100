"""`farm shell`: look around where a run's compile ran."""

from __future__ import annotations

import click

from farm.cli import ids
from farm.cli.command import Command
from kernelfarm.errors import Code, FarmError

EPILOG = """\b
Examples:
  farm shell r12
  farm shell r12 -- python3 -s -P -m kernelc in out

The exit status is that of the program."""


@click.command("shell", cls=Command, epilog=EPILOG)
@click.argument("name", metavar="RUN")
@click.argument("words", nargs=-1, metavar="[-- PROGRAM...]")
def command(name: str, words: tuple[str, ...]) -> int:
    """Open a shell, or run PROGRAM, in the sandbox of RUN with its inputs.

    The model and the request lie in in/ (read-only), out/ is empty, /farm/code holds the compiler. There is no network,
    and what is written is gone afterwards. A run of the runner process has no sandbox: its shell is an ordinary one.
    """
    from farm import config, shell
    from farm.ledger.ledger import opened

    kind, number = ids.parse(name)
    if kind != "r":
        raise FarmError(Code.RUN_UNKNOWN, f"{name} is a build", "a shell is of one run", f"See `farm status {name}`.")
    settings = config.load()
    settings.home.create()
    with opened(settings.ledger) as ledger:
        return shell.enter(settings, ledger, number, words)
