"""Tells what a long command does now, on standard error: a line that changes on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def working(what: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What to call with each thing that is done, for the time of the block; `what` is shown before the first."""
    if quiet:
        yield lambda _text: None
        return
    if not sys.stderr.isatty():
        yield lambda text: click.echo(text, err=True)
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield lambda text: status.update(text)
