"""`farm logs`: what the compiler said in a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import ids
from farm.cli.command import Command
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.ledger.ledger import Ledger

EPILOG = """\b
Examples:
  farm logs r12
  farm logs r12 -f
  farm logs b7"""

_POLL_S = 0.25
_CHUNK = 1 << 16


@click.command("logs", cls=Command, epilog=EPILOG)
@click.argument("name", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--json", "as_json", is_flag=True, help="Print where the log files are as one JSON document.")
def command(name: str, follow: bool, as_json: bool) -> None:
    """Show the log of the run ID, or of every run of the build ID, attempt by attempt."""
    from farm import config
    from farm.cli import output
    from farm.ledger.ledger import opened

    kind, number = ids.parse(name)
    settings = config.load()
    settings.home.create()
    with opened(settings.ledger) as ledger:
        runs = _runs(ledger, kind, number)
        if as_json:
            files = {f"r{run}": [str(path) for path in log_files(settings.home.logs, run)] for run in runs}
            output.print_json({"schema": "logs/1", "runs": files})
            return
        for run in runs:
            _show(ledger, settings.home.logs, run, follow=follow, title=len(runs) > 1)


def _runs(ledger: Ledger, kind: str, number: int) -> list[int]:
    if kind == "r":
        return [ledger.runs.get(number).id]
    ledger.builds.get(number)
    found = sorted({cell.run_id for cell in ledger.builds.cells(number) if cell.run_id is not None})
    if not found:
        why = "everything came from the cache, or failed before it ran"
        raise FarmError(Code.RUN_UNKNOWN, f"build b{number} has no run", why, f"See `farm status b{number}`.")
    return found


def log_files(logs: Path, run: int) -> list[Path]:
    """The log files of a run, in the order of its attempts."""
    return sorted((logs / f"r{run}").glob("*.log"), key=lambda path: int(path.stem) if path.stem.isdecimal() else 0)


def _show(ledger: Ledger, logs: Path, run: int, *, follow: bool, title: bool) -> None:
    def live() -> bool:
        return follow and not ledger.runs.get(run).status.state.final

    if title:
        click.echo(f"== r{run}")
    for data in read(lambda: log_files(logs, run), live):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def read(files: Callable[[], list[Path]], live: Callable[[], bool], *, poll_s: float = _POLL_S) -> Iterator[bytes]:
    """The bytes of log files, one after the other; while `live`, also what is added later and files that come later."""
    offsets: dict[Path, int] = {}
    going = True
    while going:
        going = live()  # asked before the reading: what was written before the end is still seen
        for path in files():
            with path.open("rb") as stream:
                stream.seek(offsets.get(path, 0))
                while data := stream.read(_CHUNK):
                    yield data
                offsets[path] = stream.tell()
        if going:
            time.sleep(poll_s)
