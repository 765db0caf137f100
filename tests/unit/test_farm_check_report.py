"""What `farm check` makes of outputs, and what it asks before it runs anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm.check import Report, worst_of
from farm.cli.check import named_files
from kernelfarm.errors import Code, FarmError, Status


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


def test_a_report_without_any_output_does_not_hold():
    assert not report().holds


def test_inputs_are_named_by_everything_before_the_last_equals_sign():
    assert named_files(("x=a.npy", "net=out:0=b.npy")) == {"x": Path("a.npy"), "net=out:0": Path("b.npy")}


@pytest.mark.parametrize("texts", [("x",), ("=a.npy",), ("x=",), ("x=a.npy", "x=b.npy")])
def test_other_texts_are_wrong_usage(texts: tuple[str, ...]):
    with pytest.raises(FarmError) as raised:
        named_files(texts)

    assert raised.value.code is Code.USAGE
