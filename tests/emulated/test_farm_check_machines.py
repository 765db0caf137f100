"""`farm check` and the self-test on every target: natively, in qemu, or plainly not run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from farm import check, config, reference, subject
from farm.check import Question
from farm.config import Config
from farm.shapes import parse
from kernelfarm.errors import Status
from tests.support import emulated, graphs
from toolchains import emulator, target


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))  # for the workers too
    monkeypatch.setenv("CI", "true")
    return config.load()


@pytest.mark.parametrize("name", target.names())
def test_the_small_model_agrees_with_onnxruntime_and_with_its_golden_vectors(
    settings: Config, tmp_path: Path, name: str
):
    model = graphs.tiny(tmp_path / "tiny.onnx")

    found = check.check(settings, Question(model, name, count=2))

    if not found.ran:
        pytest.skip(found.reason)
    assert found.holds, found.error()
    assert found.cases == 2
    assert (found.how == "native") == (not emulator.missing(target.load(name)))
    with subject.opened(settings, model, name, parse([])) as one:
        command = [str(one.ready.program), str(one.ready.layout), "--self-test"]
        done = subprocess.run(
            [*check.runner_of(name).argv_prefix, *command], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok y cases=2 ")


@pytest.mark.parametrize("name", target.names())
def test_a_value_that_a_kernel_keeps_is_right_on_every_machine(settings: Config, tmp_path: Path, name: str):
    found = check.check(settings, Question(graphs.self_gated(tmp_path / "gated.onnx"), name, count=2))

    if not found.ran:
        pytest.skip(found.reason)
    assert found.holds, found.error()


def test_an_emulated_check_runs_one_case_unless_told_otherwise(settings: Config, tmp_path: Path):
    emulated.load("aarch64")

    found = check.check(settings, Question(graphs.relu(tmp_path / "relu.onnx"), "aarch64"))

    assert (found.cases, found.how.split()[0]) == (1, "qemu-aarch64-static")
    assert "run" not in found.reason


def test_several_targets_ask_the_reference_runtime_once(
    settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    run = reference.run

    def counted(model: Path, *names: list[str], **rest: object) -> object:
        asked.append(len(names[2]))
        return run(model, *names, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(reference, "run", counted)
    model, known = graphs.relu(tmp_path / "relu.onnx"), {}

    found = [check.check(settings, Question(model, name, count=2), known=known) for name in ("x86-64-v3", "aarch64")]

    if not all(report.ran for report in found):
        pytest.skip("not both can be run")
    assert [report.holds for report in found] == [True, True]
    assert asked == [2]


def test_without_an_emulator_it_is_not_run_and_ci_fails(
    settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(emulator, "find", lambda *_: None)
    found = check.check(settings, Question(graphs.relu(tmp_path / "relu.onnx"), "riscv64"))

    assert not found.ran
    assert "qemu-riscv64-static is missing" in found.reason
    assert (found.status, found.status_for(settings)) == (Status.DONE, Status.ENVIRONMENT)
    assert found.payload.startswith("sha256:")  # it was compiled all the same


def test_a_processor_that_no_emulator_knows_is_no_failure_of_ci(
    settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(emulator, "_flags", lambda: frozenset({"avx2"}))
    found = check.check(settings, Question(graphs.relu(tmp_path / "relu.onnx"), "x86-64-v4"))

    assert not found.ran
    assert "avx512f" in found.reason
    assert found.status_for(settings) is Status.DONE
