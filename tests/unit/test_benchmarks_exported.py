"""Exported models are compared with their records, and asked for where they are not written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import exported, prepared
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """One model's file, and an environment whose Python does nothing."""
    monkeypatch.setattr(exported, "CACHE", tmp_path)
    monkeypatch.setattr(exported, "ENVIRONMENTS", tmp_path)
    model = exported.EXPORTED["espcn_x3"]
    (tmp_path / "espcn_x3.onnx").write_bytes(b"a model")
    known = replace(model, digest=digest.of_bytes(b"a model"))
    monkeypatch.setattr(exported, "EXPORTED", {"espcn_x3": known})
    return tmp_path


def python(place: Path, status: int) -> None:
    program = place / "export" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nexit {status}\n")
    program.chmod(0o755)


def test_a_file_with_its_recorded_digest_is_as_recorded(place: Path, capsys):
    python(place, 0)

    assert exported.main([]) == 0
    assert "1x3x180x320    as recorded" in capsys.readouterr().out


def test_another_file_is_said_to_be(place: Path, capsys):
    python(place, 0)
    (place / "espcn_x3.onnx").write_bytes(b"another")

    assert exported.main(["espcn_x3"]) == 1
    assert "NOT as recorded" in capsys.readouterr().out


def test_without_the_environment_or_when_torch_fails_the_status_is_that_of_a_lack(place: Path):
    assert exported.main([]) == 3
    python(place, 1)
    assert exported.main([]) == 3


def test_an_unknown_name_is_wrong_usage():
    assert exported.main(["resnet"]) == 2


def test_a_model_that_was_not_written_is_asked_for(place: Path):
    (place / "espcn_x3.onnx").unlink()

    with pytest.raises(FarmError) as caught:
        prepared.fetch(exported.EXPORTED["espcn_x3"])
    assert (caught.value.code, caught.value.next_step) == (Code.FILE_MISSING, "Run `make bench-models`.")


def test_the_bar_has_thirteen_models():
    assert len({model.name for model in prepared.all_models()}) == 13
