"""Lines of bars that tests prove: how many there are, how they ended, whether all that a bar names is among them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import Line
from tests.support import models

_LAST = 5


@dataclass(frozen=True, slots=True)
class Ran:
    """How tests ended, by name: "passed", "failed" or "skipped"; seconds of all of them, the end of the output."""

    ends: Mapping[str, str]
    seconds: float
    said: str

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(end == "passed" for end in self.ends.values())

    @property
    def all_passed(self) -> bool:
        """Whether there were tests, and none failed or was skipped."""
        return 0 < self.passed == len(self.ends)

    @property
    def lacking(self) -> Sequence[str]:
        """The tests that did not pass, each with how it ended; without any test, the end of what was said."""
        wrong = [f"{name}: {end}" for name, end in sorted(self.ends.items()) if end != "passed"]
        return wrong if self.ends else self.said.splitlines()[-_LAST:]

    def covers(self, words: Sequence[str], least: int = 1) -> bool:
        """Whether at least so many tests with one of these words in their names passed, and none of them failed."""
        found = [end for name, end in self.ends.items() if any(word in name for word in words)]
        return len(found) >= least and set(found) == {"passed"}


def ran(tests: Sequence[str]) -> Ran:
    """Run tests one after another under CI, so that a missing service is a failure."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        argv = [sys.executable, "-m", "pytest", "-p", "no:xdist", f"--junit-xml={report}", *tests]
        environment = {**os.environ, "CI": "true"}
        done = subprocess.run(argv, cwd=models.ROOT, env=environment, capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr)[-6000:]
        if not report.exists():
            return Ran({}, 0.0, said)
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    ends = {f"{case.get('classname')}::{case.get('name')}": _end(case) for case in cases}
    return Ran(ends, sum(float(case.get("time", "0")) for case in cases), said)


def _end(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def counted(found: Ran, name: str, kinds: Mapping[str, Sequence[str]]) -> Iterator[Line]:
    """A line for tests of which each kind must be among: kind -> parts of the names of its tests."""
    lacking = sorted(kind for kind, words in kinds.items() if not found.covers(words))
    figure = f"{found.passed} of {len(found.ends)} tests"
    figure += f", not {', '.join(lacking)}" if lacking else ""
    detail = {"ends": found.ends, "said": "" if found.all_passed else found.said}
    yield Line(name, figure, f"all; {len(kinds)} kinds", found.all_passed and not lacking, detail, found.lacking)
