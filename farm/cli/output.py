"""What commands print: tables, JSON documents, errors. Colours only on a terminal, and never with NO_COLOR."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import click

from kernelfarm import files, paths
from kernelfarm.errors import FarmError


def print_json(document: Any) -> None:
    """One JSON document on standard output: keys sorted, indented, UTF-8."""
    click.echo(json_text(document))


def json_text(document: Any) -> str:
    """JSON for people: keys sorted, indented."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)


def style(text: str, colour: str, *, stream: Any = None) -> str:
    """`text` in a colour when `stream` (standard output by default) is a terminal."""
    target = sys.stdout if stream is None else stream
    return click.style(text, fg=colour) if target.isatty() and not os.environ.get("NO_COLOR") else text


def show_error(error: FarmError) -> None:
    """An error on standard error: its code and what happened, then why, then what to do next, a line each."""
    lines = [f"{style('error', 'red', stream=sys.stderr)} {error.code.number}: {plain(error.what)}"]
    if error.why:
        lines.append(f"  why:  {plain(error.why)}")
    if error.next_step:
        lines.append(f"  next: {plain(error.next_step)}")
    click.echo("\n".join(lines), err=True)


def plain(text: str) -> str:
    """Text without control characters: a model's names must not drive the terminal. Line ends stay."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with two spaces between; the header in capitals. Without rows only the header."""
    lines = [[name.upper() for name in header], *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def size(count: int) -> str:
    """A number of bytes for people: "512 B", "1.5 MiB"."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def short(digest: str) -> str:
    """The first 12 hex digits of a digest, for tables; JSON always holds all of it."""
    return digest.removeprefix("sha256:")[:12]


def keep_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """Write the traceback of a fault of the farm into a file and say where; the name follows from the text."""
    text = "".join(traceback.format_exception(kind, error, trace))
    try:
        logs = paths.home().logs
        path = logs / f"fault-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}.txt"
        logs.mkdir(parents=True, exist_ok=True)
        files.atomic_write(path, text.encode("utf-8", "replace"))
    except (OSError, FarmError):
        return f"Please report it with this trace:\n{text}"
    return f"Please report it with {path}."
