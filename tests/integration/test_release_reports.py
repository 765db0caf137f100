"""The SARIF of `farm verify` and `farm release` is SARIF for others too: Microsoft's validator, GitHub's rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from farm.release import reports
from farm.verify import Check, Report
from kernelfarm.errors import Code, FarmError
from tests.support import sarif_validator

pytestmark = pytest.mark.services

NO_ADDRESS = {("warning", "SARIF2005")}
"""That no page on the web tells more about the farm: there is none."""


@pytest.fixture(scope="module")
def validator() -> Path:
    return sarif_validator.installed()


def report(*codes: Code) -> Report:
    """A report with a check that holds, and one for each code that does not."""
    errors = [FarmError(code, "wh\x00t", "<why> & so", "Do it.") for code in codes]
    bad = [Check("gate", f"a b/{error.code.name}", error=error) for error in errors]
    return Report(signed=True, checks=[Check("layout", "index.json", "3 blobs"), *bad])


def written(folder: Path, *codes: Code) -> Path:
    reports.write(report(*codes), "farm verify", junit=None, sarif=folder / "found.sarif")
    return folder / "found.sarif"


def against_the_schema(validator: Path, document: Any) -> list[str]:
    schema = sarif_validator.schema(validator)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return [error.message for error in kind(schema).iter_errors(document)]


@pytest.mark.parametrize(
    "codes",
    [(), (Code.BUNDLE_CORRUPT,), tuple(Code)],
    ids=["all holds", "one thing does not", "one of every error of the farm"],
)
def test_it_is_valid(validator: Path, tmp_path: Path, codes: tuple[Code, ...]) -> None:
    path = written(tmp_path, *codes)

    assert against_the_schema(validator, json.loads(path.read_bytes())) == []
    assert sarif_validator.complaints(validator, path) <= NO_ADDRESS


def no_message(result: dict[str, Any]) -> None:
    del result["message"]


def wrong_level(result: dict[str, Any]) -> None:
    result["level"] = "fatal"


def unknown_field(result: dict[str, Any]) -> None:
    result["surprise"] = True


@pytest.mark.parametrize("change", [no_message, wrong_level, unknown_field])
def test_the_schema_refuses_what_is_wrong(
    validator: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    document = json.loads(written(tmp_path, Code.BUNDLE_CORRUPT).read_bytes())
    change(document["runs"][0]["results"][0])

    assert len(against_the_schema(validator, document)) == 1


def test_the_validator_knows_what_github_demands(validator: Path, tmp_path: Path) -> None:
    path = written(tmp_path, Code.BUNDLE_CORRUPT)
    document = json.loads(path.read_bytes())
    del document["runs"][0]["tool"]["driver"]["rules"][0]["help"]
    path.write_text(json.dumps(document))

    assert sarif_validator.complaints(validator, path) - NO_ADDRESS == {("error", "GH2012")}
