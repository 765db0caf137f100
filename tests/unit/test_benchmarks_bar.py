"""Reports of bars: what was measured is written, line by line, and a part never passes for the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bar, bar_a1, bar_a2, bar_a3, bar_a4, bar_c
from benchmarks.bar import Line
from benchmarks.measure import Measured, Side
from benchmarks.records import Entry, GroupTime, Record
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


@pytest.mark.parametrize("word", ["-h", "--help"])
@pytest.mark.parametrize(
    ("name", "module"), [("A1", bar_a1), ("A2", bar_a2), ("A3", bar_a3), ("A4", bar_a4), ("C", bar_c)]
)
def test_help_shows_lines_and_examples_and_measures_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, module: Any, word: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        module.main([word])

    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"  make bar-{name} " in out.partition("examples:")[2]
    assert f"python -m benchmarks.bar_{name.lower()} " in out.partition("examples:")[2]
    assert ("--small" in out) == (name == "A4")
    assert list(folder.iterdir()) == []


def test_a_line_that_does_not_exist_is_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bar_a4.main(["--small", "sequences"])

    assert ended.value.code == 2
    assert "no such line: sequences; there are versions, " in capsys.readouterr().err
    assert list(folder.iterdir()) == []


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


def run_of(*ratios: float | None) -> Record:
    """Models on which ours takes so many times the time of the only peer; None: one that does not compile."""
    entries = []
    for number, ratio in enumerate(ratios):
        entry = Entry(f"m{number}", "1x1", error={"code": "MODEL_OPERATOR", "what": "no", "why": "unknown operator"})
        if ratio is not None:
            sides = {"ours": Side("ours", best_ns=int(1000 * ratio)), "onnxruntime": Side("onnxruntime", best_ns=1000)}
            figures = Measured(f"m{number}", (0,), 1, 1.0, (0.0, 0.0), sides)
            groups = [GroupTime("g1_conv", "conv 8x8x3x3", "1x8x4x4", 30.0, 20.0, 1.0)]
            entry = Entry(f"m{number}", "1x1", figures=figures, groups=groups)
        entries.append(entry)
    return Record("x86-64-v4", 1, 25, entries)


def test_the_bar_of_speed_counts_a_model_that_does_not_compile_against_it():
    counted, to_ort, _, worst, above = bar_c.lines(run_of(0.5, 0.8, None))

    assert (counted.figure, counted.holds) == ("2 of 3", False)
    assert counted.lacking == ["m2: MODEL_OPERATOR: unknown operator"]
    assert (to_ort.figure, to_ort.holds) == ("0.632", True)  # the root of 0.4
    assert (worst.figure, worst.holds, above.figure) == ("0.80", True, "0")


def test_a_slow_model_breaks_the_bar_and_the_group_that_loses_is_named():
    _, to_ort, to_best, worst, above = bar_c.lines(run_of(1.4, 1.0))

    assert [line.holds for line in (to_ort, to_best, worst)] == [False, False, False]
    assert worst.lacking == ["m0 1.40"]
    assert above.detail == ["m0 1.40: g1_conv (conv 8x8x3x3) takes 30 us, onnxruntime's 20"]


def test_a_bar_of_which_nothing_is_measured_does_not_hold():
    assert [line.holds for line in bar_c.lines(run_of(None))][:4] == [False] * 4
