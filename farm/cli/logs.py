"""`farm logs`: what the compiler said in a run."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import ids
from farm.cli.command import Command
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState
from kernelfarm.store import ContentStore

if TYPE_CHECKING:
    from farm.ledger.ledger import Ledger
    from farm.ledger.nouns import AttemptRow, RunRow

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
    """Show the log of the run ID, or of every run of the build ID, attempt by attempt.

    Control characters are shown, not sent to the terminal: a log is what a compile wrote. `--json` names the files.
    """
    from farm import config
    from farm.cli import output
    from farm.ledger.ledger import opened

    kind, number = ids.parse(name)
    settings = config.load()
    settings.home.create()
    with opened(settings.ledger) as ledger:
        runs = _runs(ledger, kind, number)
        logs = settings.home.logs
        if as_json:
            files = {f"r{run}": [str(path) for path in log_files(logs, run)] for run in runs}
            output.print_json({"schema": "logs/1", "runs": files})
            return
        for run in runs:
            if len(runs) > 1:
                click.echo(f"== r{run}")
            _show_kept(ledger, ContentStore(settings.home.store), logs, run)
            _show(ledger, logs, run, follow=follow)


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


def _show(ledger: Ledger, logs: Path, run: int, *, follow: bool) -> None:
    tell = _Teller()

    def live() -> bool:
        if not follow:
            return False
        row = ledger.runs.get(run)
        tell(row, ledger)
        return not row.status.state.final

    show = _Shown()
    for data in read(lambda: log_files(logs, run), live):
        show(data)
    show(b"", final=True)


def _show_kept(ledger: Ledger, store: ContentStore, logs: Path, run: int) -> None:
    """The logs of attempts whose files are gone, from the content store."""
    for attempt in ledger.runs.attempts(run):
        if attempt.log is None or (logs / f"r{run}" / f"{attempt.fencing}.log").is_file():
            continue
        try:
            _Shown()(store.get_bytes(digest.parse(attempt.log)), final=True)
        except FarmError as error:
            if error.code is not Code.STORE_MISSING:
                raise
            click.echo(f"the log of attempt {attempt.fencing} was removed by `farm gc`", err=True)


class _Shown:
    """Writes the pieces of a log as `output.plain` text; bytes that are no UTF-8 are shown as such."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def __call__(self, data: bytes, *, final: bool = False) -> None:
        from farm.cli import output

        click.echo(output.plain(self._decoder.decode(data, final)), nl=False)


class _Teller:
    """Says on standard error where a run is that is being followed, whenever that changes."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, row: RunRow, ledger: Ledger) -> None:
        words = whereabouts(row, ledger.runs.attempts(row.id))
        if words != self._said:
            self._said = words
            click.echo(f"r{row.id} {words}", err=True)


def whereabouts(row: RunRow, attempts: Sequence[AttemptRow]) -> str:
    """Where a run is, in words: "waits in the queue", "attempt 2 at w3 on host b1, runner docker", "done"."""
    if row.status.state is RunState.QUEUED:
        return "waits in the queue"
    if row.status.state.final or not attempts:
        return str(row.status.state.value)
    last = attempts[-1]
    place = f" on host {last.host}" if last.host else ""
    runner = f", runner {last.runner}" if last.runner else ""
    return f"attempt {last.fencing} at {last.worker}{place}{runner}"


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
