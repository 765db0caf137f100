"""`farm doctor`: what this machine lacks, and how to get it."""

from __future__ import annotations

import click

from farm.cli import output
from farm.cli.command import Command
from kernelfarm.errors import Status

EPILOG = """\b
Examples:
  farm doctor
  farm doctor --deep
  farm doctor --json

Exit status 3 when something that the farm needs is missing."""

_COLOURS = {"ok": "green", "note": "yellow", "missing": "red"}


@click.command("doctor", cls=Command, epilog=EPILOG)
@click.option("--deep", is_flag=True, help="Hash every file of every pinned tool again (seconds).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(deep: bool, as_json: bool) -> int:
    """Check Python, tools, licence scanner, state folder, ledger, keys, runners, services, disk and processor.

    Each fault comes with what to do about it.
    """
    from farm import doctor

    findings = doctor.examine(deep=deep)
    missing = any(finding.level is doctor.Level.MISSING for finding in findings)
    status = Status.ENVIRONMENT if missing else Status.DONE
    if as_json:
        entries = [
            {"check": item.check, "level": item.level.value, "said": item.said, "next": item.advice}
            for item in findings
        ]
        output.print_json({"schema": "doctor/1", "status": int(status), "findings": entries})
        return int(status)
    width = max(len(item.check) for item in findings)
    for item in findings:
        level = output.style(item.level.value.ljust(7), _COLOURS[item.level.value])
        click.echo(f"{level}  {item.check.ljust(width)}  {item.said}")
        if item.advice:
            click.echo(f"{' ' * (width + 11)}-> {item.advice}")
    return int(status)
