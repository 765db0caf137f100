"""Reports of bars: what was measured is written, line by line, and a part never passes for the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bar
from benchmarks.bar import Line
from benchmarks.tests_ran import Ran, counted


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bar, "FOLDER", tmp_path)
    return tmp_path


def written(folder: Path) -> Any:
    return json.loads((folder / "B.json").read_text())


def good() -> Iterator[Line]:
    """A line that holds, with figures."""
    yield Line("steps", "3 s", "< 5 s", True, {"seconds": {"build": 2, "release": 1}})


def bad() -> Iterator[Line]:
    """A line that tests prove, of which one failed."""
    ends = {"tests.unit.test_x::test_a": "passed", "tests.unit.test_x::test_b": "failed"}
    yield from counted(Ran(ends, 1.0, "what pytest said"), "tests", {"both": ("test_",)})


def broken() -> Iterator[Line]:
    """One that is broken off after its first line."""
    yield from good()
    raise KeyboardInterrupt


def test_a_whole_run_that_holds_says_so(folder: Path) -> None:
    assert bar.measure("B", [], {"good": good}) == 0

    report = written(folder)
    assert (report["holds"], report["measured"], report["missing"]) == (True, ["good"], [])


def test_named_lines_are_written_with_their_details_and_do_not_pass_for_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bar.measure("B", ["good"], {"good": good, "bad": bad}) == 0

    report = written(folder)
    assert report["lines"][0]["detail"] == {"seconds": {"build": 2, "release": 1}}
    assert (report["holds"], report["measured"], report["missing"]) == (False, ["good"], ["bad"])
    assert "without bad" in capsys.readouterr().out


def test_of_a_run_that_is_broken_off_what_it_measured_is_there(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        bar.measure("B", [], {"broken": broken, "good": good})

    report = written(folder)
    assert [line["figure"] for line in report["lines"]] == ["3 s"]
    assert (report["holds"], report["measured"], report["missing"]) == (False, [], ["broken", "good"])


def test_a_line_that_tests_prove_names_those_that_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bar.measure("B", [], {"bad": bad}) == 1

    assert "tests.unit.test_x::test_b: failed" in capsys.readouterr().out
    assert written(folder)["lines"][0]["lacking"] == ["tests.unit.test_x::test_b: failed"]
    assert not written(folder)["holds"]


def test_tests_that_did_not_even_start_say_why() -> None:
    (line,) = counted(Ran({}, 0.0, "ERROR: file or directory not found: tests/unit/test_y.py"), "tests", {})

    assert not line.holds
    assert line.lacking == ["ERROR: file or directory not found: tests/unit/test_y.py"]
