"""What the bars of all issues share: a line, running the measures, and the report in build/bar."""

from __future__ import annotations

import json
import os
import platform
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelfarm import digest, files
from tests.support import models

FOLDER = models.ROOT / "build" / "bar"
SOURCES = ("containers", "farm", "kernelc", "kernelfarm", "runtime", "sbom", "signing", "toolchains")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the bar: what it is about, its figure, what is asked for, whether that holds, details for the file.

    `lacking` is why it does not hold, in words: the tests that failed.
    """

    name: str
    figure: str
    asked: str
    holds: bool
    detail: Any = None
    lacking: Sequence[str] = ()


Measures = Mapping[str, Callable[[], Iterator[Line]]]


def options(name: str, about: str, known: Sequence[str], words: Sequence[str], *, small: str = "") -> Namespace:
    """The command line of the bar `name`: `lines`, and, where `small` says what that is, `small`.

    `about` is what its module says of itself. Ends the process after --help, and with 2 for what is no line.
    """
    program = f"python -m benchmarks.bar_{name.lower()}"
    examples = {f"make bar-{name}": "every line", f"{program} {known[0]}": "this line alone"}
    if small:
        examples[f"{program} --small {known[-1]}"] = "the small one"
    width = max(map(len, examples))
    parser = ArgumentParser(
        prog=program,
        description=about.partition("\n")[0],
        epilog="\n".join(["examples:", *(f"  {line:{width}}  {what}" for line, what in examples.items())]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("lines", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all by default")
    if small:
        parser.add_argument("--small", action="store_true", help=small)
    given = parser.parse_args(words)
    if wrong := sorted(set(given.lines) - set(known)):
        parser.error(f"no such line: {', '.join(wrong)}; there are {', '.join(known)}")
    return given


def measure(name: str, chosen: Sequence[str], measures: Measures) -> int:
    """Measure the chosen lines, or all, into the report of the bar `name`; 1 when a line does not hold.

    The report is written after each line: of a run that was broken off, what it had measured is there. One that does
    not hold every line of the bar says so, and what it lacks.
    """
    report = Report(name, tuple(measures))
    for one in chosen or measures:
        for line in measures[one]():
            print(f"{'ok ' if line.holds else 'BAD'}  {line.name:<52} {line.figure:<34} {line.asked}", flush=True)
            for why in () if line.holds else line.lacking:
                print(f"       {why}", flush=True)
            report.lines.append(line)
            report.write()
        report.measured.append(one)
        report.write()
    without = f", without {', '.join(report.missing)}" if report.missing else ""
    print(f"written to {report.path}{without}")
    return 0 if all(line.holds for line in report.lines) else 1


@dataclass(slots=True)
class Report:
    """What was measured so far: the names in `of` that are in `measured` to their end, and their lines."""

    name: str
    of: Sequence[str]
    measured: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    sources: Mapping[str, str] = field(
        default_factory=lambda: {room: digest.of_tree(models.ROOT / room) for room in SOURCES}
    )

    @property
    def path(self) -> Path:
        """Its file."""
        return FOLDER / f"{self.name}.json"

    @property
    def missing(self) -> list[str]:
        """The names that were not measured to their end."""
        return [one for one in self.of if one not in self.measured]

    def write(self) -> None:
        """Write it: figures, the sources measured, the machine. It holds when it is whole and every line does."""
        document = {
            "schema": "bar/2",
            "bar": self.name,
            "holds": not self.missing and all(line.holds for line in self.lines),
            "measured": self.measured,
            "missing": self.missing,
            "sources": self.sources,
            "machine": {"architecture": platform.machine(), "cores": len(os.sched_getaffinity(0))},
            "lines": [{key: getattr(line, key) for key in Line.__slots__} for line in self.lines],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.atomic_write(self.path, json.dumps(document, indent=1, sort_keys=True, default=str).encode())
