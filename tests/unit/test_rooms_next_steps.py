"""Every error that a user of releases, registries and signatures can meet says what to do next."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from farm.cli.main import main
from kernelfarm.errors import Code, FarmError, Status, advising

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("farm/registry", "farm/release", "farm/cli", "signing")
FILES = ("farm/publish.py", "farm/blobs.py", "farm/https.py", "farm/policy.py", "farm/verify.py", "farm/audit.py")


def silent(text: str) -> list[int]:
    """Lines that make a `FarmError` without a next step; faults of the farm itself (INTERNAL) have none."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "FarmError"]
    return [call.lineno for call in made if not _step(call) and ast.unparse(call.args[0]) != "Code.INTERNAL"]


def _step(call: ast.Call) -> bool:
    given = {word.arg: word.value for word in call.keywords}
    step = call.args[3] if len(call.args) > 3 else given.get("next_step")
    return step is not None and not (isinstance(step, ast.Constant) and not step.value)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('FarmError(Code.USAGE, "what", "why", "Do it.")', []),
        ('FarmError(Code.USAGE, "what", next_step=advice)', []),
        ('FarmError(Code.USAGE, "what", "why")', [1]),
        ('FarmError(Code.USAGE, "what", "why", "", {})', [1]),
        ('FarmError(Code.USAGE, "what", next_step="")', [1]),
        ('FarmError(Code.INTERNAL, "what")', []),
    ],
)
def test_an_error_without_a_next_step_is_found(text: str, lines: list[int]) -> None:
    assert silent(text) == lines


def test_no_error_of_these_rooms_is_made_without_a_next_step() -> None:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    paths += [ROOT / name for name in FILES]

    found = {path.relative_to(ROOT).as_posix(): silent(path.read_text()) for path in paths}

    assert len(found) > 50
    assert {name: lines for name, lines in found.items() if lines} == {}


COMMANDS = (
    ("verify", "nowhere", "--no-signature"),
    ("audit", "nowhere"),
    ("audit", "find", "--licence", "MIT", "empty"),
    ("licences", "nowhere"),
    ("rebuild", "nowhere"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_no_bundle_is_told_with_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: Sequence[str]
) -> None:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()

    assert main([*words, "--json"]) == Status.BAD

    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == Code.BUNDLE_INVALID.number
    assert error["next"].startswith("Give ")


def test_a_next_step_is_given_to_errors_that_have_none_alone() -> None:
    steps = {}
    for own in ("", "Do this."):
        with pytest.raises(FarmError) as caught, advising("Do that."):
            raise FarmError(Code.JSON_INVALID, "what", "why", own, {"file": "x"})
        steps[own] = caught.value.next_step
        assert (caught.value.code, caught.value.why, caught.value.detail) == (Code.JSON_INVALID, "why", {"file": "x"})
    assert steps == {"": "Do that.", "Do this.": "Do this."}
