"""No figure of `farm explain --measure` without its checks: what makes a measurement of kernels invalid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm import measure
from farm.cli import measured
from farm.measure import Question, Report
from farm.measure_child import fastest
from farm.native import Runnable
from farm.subject import Subject
from kernelc.explanation import Explanation, KernelStory, LayoutStory, StageTime
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from toolchains import processor

QUESTION = Question(Path("net.onnx"), "x86-64-v4")
DIGEST = Digest("sha256:" + 64 * "0")


def story(name: str, family: str, flop: int, half_cycles: int) -> KernelStory:
    return KernelStory(name, family, f"kf_{name}", "4x6", 8, flop, 1024, 2048, half_cycles, "compute", 34, 32)


STORIES = (
    story("input0", "cast", 0, 200),
    story("g0_conv", "conv 1x1", 64_000, 3000),
    story("g1_conv", "conv 1x1", 32_000, 1500),
)
LAYOUTS = LayoutStory(0, 0, 0, 0, 0, 0, (), ())
TOLD = Explanation("net", "x86-64-v4", DIGEST, (), STORIES, LAYOUTS, (), (), (), (StageTime("import", 1500),))


def subject(stories: Sequence[KernelStory] = STORIES) -> Subject:
    config: Mapping[str, Any] = {"groups": [{"name": one.name, "symbol": one.symbol} for one in stories]}
    ready = Runnable(Path("media-run"), Path("lib.so"), Path("layout"), "x86-64-v4")
    return Subject("net", "x86-64-v4", DIGEST, True, Path("net.onnx"), ready, config)


def found(**other: Any) -> Mapping[str, Any]:
    """Times of 100, 1000 and 1000 ns beside a peak of 128 GF/s (2 GHz with two registers of 16 lanes per cycle)."""
    right = {
        "timed_ns": [300, 1200, 1200],
        "reading_ns": 200,
        "table_ns": 2100,
        "engine_ns": 2050,
        "peak_gflops": 128.0,
        "inferences": 900,
        "equal": True,
    }
    return {**right, **other}


def judged(**other: Any) -> Report:
    return measure.judge(subject(), QUESTION, TOLD, 0, found(**other))


def test_a_part_is_its_time_less_the_clock_beside_what_the_model_said():
    report = judged()

    assert [part.nanoseconds for part in report.parts] == [100, 1000, 1000]
    assert [part.gflops for part in report.parts] == [0.0, 64.0, 32.0]
    assert [part.predicted_ns for part in report.parts] == [50.0, 750.0, 375.0]  # two half cycles take 0.5 ns
    assert (report.sum_ns, report.status, report.faults) == (2100, Status.DONE, ())
    document = report.to_json()
    assert [one["of_peak"] for one in document["kernels"]] == [0.0, 0.5, 0.25]
    assert (document["valid"], document["losers"]) == (True, ["g1_conv", "g0_conv", "input0"])


def test_classes_are_summed_those_that_multiply_most_first():
    sums = judged().sums()

    assert [(one.family, one.count, one.nanoseconds, one.flop) for one in sums] == [
        ("conv 1x1", 2, 2000, 96_000),
        ("cast", 1, 100, 0),
    ]


def test_other_bits_than_an_ordinary_inference_make_every_figure_invalid():
    report = judged(equal=False)

    assert (report.status, report.to_json()["valid"]) == (Status.BAD, False)
    assert "other bits" in report.error().why
    assert report.error().code is Code.FIGURE_INVALID


@pytest.mark.parametrize(("whole", "valid"), [(2000, True), (2300, True), (1800, False), (2600, False)])
def test_parts_must_add_up_to_the_whole(whole: int, valid: bool):
    assert (judged(table_ns=whole).faults == ()) is valid


def test_a_part_above_the_peak_is_invalid():
    (fault,) = judged(peak_gflops=60.0).faults

    assert fault == "g0_conv reaches 64.0 GF/s, above the peak of this core, 60.0 GF/s"


def test_a_payload_of_other_kernels_is_not_judged():
    other = replace(STORIES[1], symbol="kf_other")

    with pytest.raises(FarmError) as caught:
        measure.judge(subject((STORIES[0], other, STORIES[2])), QUESTION, TOLD, 0, found())
    assert caught.value.code is Code.INTERNAL


def test_a_target_that_this_processor_cannot_run_is_refused_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(processor, "missing_features", lambda _: ("avx512f",))

    with pytest.raises(FarmError) as caught:
        measure.require_measurable("x86-64-v4")
    assert caught.value.code is Code.NOT_RUNNABLE_HERE
    with pytest.raises(FarmError) as caught:
        measure.require_measurable("hexagon-v67")
    assert caught.value.code is Code.NOT_RUNNABLE_HERE


def test_the_fastest_inferences_count_together_not_the_minimum_of_each_part():
    # a hundred inferences: in the two with the smallest sums the parts take 4 and 5, 6 and 5
    rows = [[4, 5], [6, 5], *([9, 3] for _ in range(49)), *([1, 11] for _ in range(49))]

    assert fastest(rows) == [5, 5]
    assert fastest([[7, 3]]) == [7, 3]


def test_the_tables_name_losers_sums_and_predictions():
    text = measured.measured(judged())

    assert "loses 0.8 us to the peak: g1_conv (conv 1x1, tile 4x6, 25.0 % of peak" in text
    assert "1.00 of a whole inference" in text
    plain = measured.predicted(TOLD)
    assert any(line.split()[:2] == ["g0_conv", "conv"] and "1.5" in line for line in plain.splitlines())
    assert "import  1.5" in plain
