"""The request of a compile child: read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelc import request
from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError
from toolchains import target


def document(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "compile-request/1",
        "model": "model.onnx",
        "model_name": "tiny",
        "shapes": {"x": [1, 3, 8, 8]},
        "target": target.load("x86-64-v3").to_json(),
        "jobs": 2,
        "rules": None,
        **changes,
    }


def write(folder: Path, value: Any) -> Path:
    (folder / request.NAME).write_bytes(canonical.dumps(value))
    return folder


def test_a_request_is_read(tmp_path: Path) -> None:
    found = request.read(write(tmp_path, document()))

    assert (found.model, found.model_name, found.jobs) == ("model.onnx", "tiny", 2)
    assert found.shapes == {"x": (1, 3, 8, 8)}
    assert found.target == target.load("x86-64-v3")


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "compile-request/2"},
        {"model": "../model.onnx"},
        {"model": 3},
        {"shapes": {"x": [1, -3]}},
        {"shapes": {"x": "1x3"}},
        {"shapes": []},
        {"jobs": 0},
        {"jobs": True},
        {"jobs": 1000},
        {"rules": "../rules.json"},
        {"rules": 3},
        {"extra": 1},
    ],
)
def test_a_request_of_another_form_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FarmError) as error:
        request.read(write(tmp_path, document(**changes)))

    assert error.value.code is Code.SCHEMA_MISMATCH


def test_a_target_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FarmError):
        request.read(write(tmp_path, document(target={"schema": "target/1"})))


def test_a_missing_request_is_an_error_of_the_environment(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as error:
        request.read(tmp_path)

    assert error.value.code is Code.FILE_MISSING
