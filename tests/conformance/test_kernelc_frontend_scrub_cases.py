"""ONNX's own node cases, of every operator: scrubbed they are read as before, or refused by the same code."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases

from kernelc import frontend, media
from kernelc.frontend.read import read_model
from kernelc.frontend.scrub.rewrite import scrub
from kernelc.frontend.scrub.secrets import Secrets
from kernelfarm.errors import FarmError
from tests.support import planted


def _read(path: Path, model: onnx.ModelProto) -> str:
    path.write_bytes(model.SerializeToString())
    try:
        return media.to_text(frontend.load(path, {}))
    except FarmError as error:
        return error.code.number


@pytest.fixture(scope="module")
def models() -> dict[str, onnx.ModelProto]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case.model for case in collect_testcases(None)}


def test_every_case_is_read_as_before(models: dict[str, onnx.ModelProto], tmp_path: Path) -> None:
    assert len(models) > 1000
    differ = []
    for name, model in models.items():
        before = _read(tmp_path / "before.onnx", model)
        try:
            after = _read(tmp_path / "after.onnx", scrub(read_model(tmp_path / "before.onnx"), Secrets()).model)
        except FarmError as error:
            after = error.code.number
        if after != before:
            differ.append(name)
    assert differ == []


def test_no_case_keeps_a_secret(models: dict[str, onnx.ModelProto]) -> None:
    secrets = Secrets.of([planted.WORD])
    for name, model in models.items():
        if model.graph.node:
            left = scrub(planted.everywhere(model), secrets).model.SerializeToString()
            assert not any(secret.lower().encode() in left.lower() for secret in planted.SECRETS), name
