"""What `farm check` makes of outputs, and what it asks before it runs anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from farm import config
from farm.check import Report, runner_of, targets_of, worst_of
from farm.cli.check import document, named_files, worst
from kernelfarm.errors import Code, FarmError, Status
from tests.support import bundles
from toolchains.emulator import Kind, Runner


def outputs(**values: float) -> dict[str, np.ndarray]:
    return {name: np.array([value], np.float32) for name, value in values.items()}


def report(*pairs: tuple[dict[str, np.ndarray], dict[str, np.ndarray]], reason: str = "") -> Report:
    worst = worst_of([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    return Report("net", "x86-64-v3", "sha256:" + 64 * "0", False, "onnxruntime", len(pairs), worst, reason)


def test_the_worst_case_of_each_output_is_kept():
    found = report(
        (outputs(a=1.00001, b=5), outputs(a=1, b=5)),
        (outputs(a=1, b=5.003), outputs(a=1, b=5)),
        (outputs(a=1.00002, b=5), outputs(a=1, b=5)),
    )

    assert [(case, one.output) for case, one in found.worst] == [(2, "a"), (1, "b")]
    assert found.holds
    assert found.status is Status.DONE
    assert found.max_abs_error == pytest.approx(0.003, abs=1e-5)


def test_a_case_outside_the_tolerance_outweighs_a_larger_error_inside_it():
    found = report(
        (outputs(a=1000.9), outputs(a=1000)),
        (outputs(a=0.01), outputs(a=0)),
    )

    assert not found.holds
    assert found.status is Status.BAD
    error = found.error()
    assert "docs/reference/onnxruntime.md" in error.next_step
    assert "onnxruntime" not in replace(found, against="the outputs in the folder").error().next_step
    assert error.code is Code.OUTSIDE_TOLERANCE
    assert error.why.startswith("case 1: output 'a' at [0]: 0.00999999978 here, 0 in the reference")


def test_a_nan_is_outside_the_tolerance_and_has_a_place_in_json():
    found = report((outputs(a=float("nan")), outputs(a=1)))

    assert found.status is Status.BAD
    assert found.to_json()["max_abs_error"] == "inf"
    assert found.to_json()["outputs"][0]["ours"] == "nan"


def test_what_could_not_be_run_is_no_failure_and_no_success():
    found = report(reason="E14 cpu: lacks avx512f")

    assert (found.ran, found.holds, found.status) == (False, False, Status.DONE)
    assert found.to_json()["reason"] == "E14 cpu: lacks avx512f"
    assert found.to_json()["max_abs_error"] is None


def test_where_nobody_looks_on_a_missing_emulator_is_a_failure(tmp_path: Path):
    alone, watched = (config.load({"FARM_HOME": str(tmp_path), "CI": value}) for value in ("true", ""))
    no_emulator = replace(report(reason="qemu is missing"), missing_tool=True)
    no_such_processor = report(reason="this processor lacks avx512f")

    assert (no_emulator.status_for(alone), no_emulator.status_for(watched)) == (Status.ENVIRONMENT, Status.DONE)
    assert no_such_processor.status_for(alone) is Status.DONE


def test_several_targets_end_with_the_gravest_status(tmp_path: Path):
    settings = config.load({"FARM_HOME": str(tmp_path), "CI": "true"})
    good = report((outputs(a=1), outputs(a=1)))
    bad = report((outputs(a=2), outputs(a=1)))
    not_run = replace(report(reason="qemu is missing"), missing_tool=True)
    failed = FarmError(Code.TARGET_UNKNOWN, "the bundle has no payload for 'z'")

    assert worst({"x": good}, settings) is Status.DONE
    assert worst({"x": good, "y": not_run}, settings) is Status.ENVIRONMENT
    assert worst({"x": good, "y": not_run, "z": failed}, settings) is Status.USAGE
    assert worst({"x": good, "y": bad, "z": failed, "w": not_run}, settings) is Status.BAD
    found = document({"x": good, "z": failed}, settings)
    assert (found["schema"], found["status"]) == ("check-reports/1", 2)
    assert found["targets"]["x"]["how"] == "native"
    assert found["targets"]["z"]["error"]["code"] == Code.TARGET_UNKNOWN.number
    assert document({"x": not_run}, settings)["how"] == "not run"


def test_without_a_target_a_bundle_is_checked_for_all_that_it_has(tmp_path: Path):
    made = bundles.write(tmp_path / "cls", tmp_path / "work")

    assert targets_of(made.path) == ("x86-64-v3", "x86-64-v4")
    with pytest.raises(FarmError) as raised:
        targets_of(tmp_path / "model.onnx")
    assert raised.value.code is Code.USAGE


def test_a_target_of_a_bundle_that_this_farm_does_not_know_is_tried_natively():
    assert runner_of("x86-64-v9") == Runner((), Kind.NATIVE, "")


def test_a_report_without_any_output_does_not_hold():
    assert not report().holds


def test_inputs_are_named_by_everything_before_the_last_equals_sign():
    assert named_files(("x=a.npy", "net=out:0=b.npy")) == {"x": Path("a.npy"), "net=out:0": Path("b.npy")}


@pytest.mark.parametrize("texts", [("x",), ("=a.npy",), ("x=",), ("x=a.npy", "x=b.npy")])
def test_other_texts_are_wrong_usage(texts: tuple[str, ...]):
    with pytest.raises(FarmError) as raised:
        named_files(texts)

    assert raised.value.code is Code.USAGE
