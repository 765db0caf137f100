"""How the lines of a report are printed: each check, then, to standard error, what does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from farm.cli import output
from kernelfarm.errors import FarmError

if TYPE_CHECKING:
    from farm.verify import Check, Report


def show(report: Report) -> None:
    """Print a report's lines; colours only on a terminal."""
    width = max((len(check.name) for check in report.checks), default=0)
    for check in report.checks:
        click.echo(f"{_mark(check)}  {check.name:{width}}  {_told(check)}")
    for check in report.checks:
        if check.error is not None:
            _complain(check, check.error)


def _mark(check: Check) -> str:
    if check.unmade:
        return output.style("-- ", "yellow")
    return output.style("ok ", "green") if check.ok else output.style("BAD", "red")


def _complain(check: Check, error: FarmError) -> None:
    """To standard error: what is bad, a file or what was asked of something, and what would help."""
    if check.unmade:
        click.echo(f"not checked: {check.name} of {check.subject}: {error}", err=True)
    else:
        what = error.detail.get("file") or f"{check.name} of {check.subject}"
        advice = f"\n  next: {output.plain(error.next_step)}" if error.next_step else ""
        click.echo(f"bad: {what}  {error.code.number} {error.code.title}{advice}", err=True)


def _told(check: Check) -> str:
    """What stands behind a check's name: a good one is told briefly, a bad one with the whole name of its file."""
    if check.error is None:
        return f"{_short(check.subject)}  {check.found}"
    if check.unmade:
        return f"{_short(check.subject)}  could not be checked on this machine: {check.error.what}"
    role = f" ({check.found})" if check.found else ""
    return f"{check.subject}{role}  {check.error.code.title}: {check.error.why or check.error.what}"


def _short(subject: str) -> str:
    head, slash, tail = subject.rpartition("/")
    return f"{head}{slash}{tail[:12]}" if len(tail) == 64 else subject
