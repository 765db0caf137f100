"""What the bars of all issues share: a line, running the measures, and the report in build/bar."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelfarm import digest
from tests.support import models

FOLDER = models.ROOT / "build" / "bar"
SOURCES = ("containers", "farm", "kernelc", "kernelfarm", "runtime", "sbom", "signing", "toolchains")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the bar: what it is about, its figure, what is asked for, whether that holds, details for the file."""

    name: str
    figure: str
    asked: str
    holds: bool
    detail: Any = None


Measures = Mapping[str, Callable[[], Iterator[Line]]]


def unknown(names: Sequence[str], known: Iterable[str]) -> int | None:
    """The exit status for names that are no lines, which is said; None when all are."""
    if wrong := sorted(set(names) - set(known)):
        print(f"no such line: {', '.join(wrong)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    return None


def measure(name: str, chosen: Sequence[str], measures: Measures) -> int:
    """Measure the chosen lines, or all and write the report of the bar `name`; 1 when a line does not hold."""
    lines = []
    for one in chosen or measures:
        for line in measures[one]():
            print(f"{'ok ' if line.holds else 'BAD'}  {line.name:<52} {line.figure:<34} {line.asked}", flush=True)
            lines.append(line)
    if not chosen:
        write(name, lines)
    return 0 if all(line.holds for line in lines) else 1


def write(name: str, lines: Sequence[Line]) -> None:
    """The report: figures, the sources measured, the machine."""
    document = {
        "schema": "bar/1",
        "bar": name,
        "holds": all(line.holds for line in lines),
        "sources": {room: digest.of_tree(models.ROOT / room) for room in SOURCES},
        "machine": {"architecture": platform.machine(), "cores": len(os.sched_getaffinity(0))},
        "lines": [
            {"name": line.name, "figure": line.figure, "asked": line.asked, "holds": line.holds, "detail": line.detail}
            for line in lines
        ],
    }
    report = FOLDER / f"{name}.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(document, indent=1, sort_keys=True, default=str), encoding="utf-8")
    print(f"written to {report.relative_to(models.ROOT)}")
