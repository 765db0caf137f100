"""No figure without its checks: how measurements are taken in turns, and what makes them invalid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm import bench, peak
from farm.bench import Question
from farm.bench_child import Clocks, Times, interleave
from farm.native import Runnable
from farm.subject import Subject
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from toolchains import processor, target

QUESTION = Question(Path("net.onnx"), "x86-64-v4")


def subject(flop: int) -> Subject:
    config: Mapping[str, Any] = {"groups": [{"flop": flop // 2}, {"flop": flop - flop // 2}]}
    ready = Runnable(Path("media-run"), Path("lib.so"), Path("layout"), "x86-64-v4")
    return Subject("net", "x86-64-v4", Digest("sha256:" + 64 * "0"), True, Path("net.onnx"), ready, config)


def measured(ours_ns: int, peer_ns: int, *, peak_gflops: float = 100.0, holds: bool = True) -> Mapping[str, Any]:
    agreement = {"output": "y", "holds": holds, "max_abs_error": 2e-6, "text": "output 'y' is wrong"}
    return {
        "best_ns": {"ours": ours_ns, "onnxruntime": peer_ns},
        "cpu_ns": {"ours": 2.0 * ours_ns, "onnxruntime": 3.0 * peer_ns},
        "peak_gflops": peak_gflops,
        "agreements": [agreement],
        "versions": {"onnxruntime": "1.32.0"},
    }


def test_figures_are_milliseconds_gflops_share_of_peak_and_ratio():
    # 50 MFLOP in 1 ms are 50 GF/s, half of a peak of 100; the peer takes 2 ms
    report = bench.judge(subject(50_000_000), QUESTION, (0,), measured(1_000_000, 2_000_000))

    assert (report.ours.milliseconds, report.ours.gflops, report.ours.share_of_peak) == (1.0, 50.0, 0.5)
    assert report.peers[0].gflops == 25.0
    assert report.ratio_best == 0.5
    assert (report.status, report.to_json()["ratio_best"]) == (Status.DONE, 0.5)


def test_of_several_threads_the_peak_is_that_of_their_cores():
    # 150 MFLOP in 1 ms are above the peak of one core of 100, not above that of two
    report = bench.judge(subject(150_000_000), replace(QUESTION, threads=2), (0, 3), measured(1_000_000, 2_000_000))

    assert (report.peak_gflops, report.ours.share_of_peak, report.faults) == (200.0, 0.75, ())
    assert (report.ours.cpu_milliseconds, report.peers[0].cpu_milliseconds) == (2.0, 6.0)
    assert (report.to_json()["threads"], report.to_json()["cores"]) == (2, [0, 3])


def test_a_wrong_output_makes_every_figure_invalid():
    report = bench.judge(subject(50_000_000), QUESTION, (0,), measured(1_000_000, 2_000_000, holds=False))

    assert report.status is Status.BAD
    assert report.to_json()["ratio_best"] is None
    assert report.error().code is Code.FIGURE_INVALID
    assert report.error().why == "output 'y' is wrong"


@pytest.mark.parametrize(
    ("ours_ns", "peer_ns", "who"), [(400_000, 1_000_000, "ours"), (1_000_000, 400_000, "onnxruntime")]
)
def test_a_figure_above_the_peak_of_the_core_is_invalid(ours_ns: int, peer_ns: int, who: str):
    report = bench.judge(subject(50_000_000), QUESTION, (0,), measured(ours_ns, peer_ns))

    assert report.faults == (f"{who} reaches 125.0 GF/s, above the peak of this core, 100.0 GF/s",)


def test_sides_take_turns_and_the_peak_is_probed_around_every_round():
    said: list[str] = []
    now = 0

    def clock() -> int:
        return now

    def side(name: str, takes: int):
        def run() -> None:
            nonlocal now
            now += takes
            if said[-1:] != [name]:
                said.append(name)

        return run

    def probe() -> float:
        said.append("peak")
        return float(len(said))

    clocks = Clocks(clock, lambda: 3 * now, lambda: None)
    times, peak_gflops = interleave({"a": side("a", 4_000_000), "b": side("b", 2_000_000)}, probe, 2, clocks)

    assert said == ["a", "b", "peak", "a", "b", "a", "peak", "a", "b", "a", "peak"]
    # five turns of three or of five inferences, on three busy cores
    assert times == {"a": Times(4_000_000, 5 * 36_000_000, 15), "b": Times(2_000_000, 5 * 30_000_000, 25)}
    assert peak_gflops == 11.0


@pytest.mark.parametrize(
    ("question", "next_step"),
    [
        (Question(Path("n"), "x86-64-v3", against=("tvm",)), "Known: onnxruntime."),
        (Question(Path("n"), "x86-64-v3", against=()), "Known: onnxruntime."),
        (Question(Path("n"), "x86-64-v3", threads=4), "Use --threads 3 or fewer."),
        (Question(Path("n"), "x86-64-v3", threads=0), "Use --threads 3 or fewer."),
    ],
)
def test_what_cannot_be_measured_is_wrong_usage(question: Question, next_step: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 4, 5})
    with pytest.raises(FarmError) as raised:
        bench._require_measurable(question)

    assert (raised.value.code, raised.value.next_step) == (Code.USAGE, next_step)


def test_missing_features_are_named_as_in_the_target_file():
    older = {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "f16c", "fma"}
    haswell = frozenset(older | {"movbe", "avx2", "bmi1", "bmi2", "abm"})

    assert processor.missing_features(target.load("x86-64-v3"), haswell) == ()
    assert processor.missing_features(target.load("x86-64-v3"), haswell - {"pni", "abm"}) == ("sse3", "lzcnt")
    assert processor.missing_features(target.load("x86-64-v4"), haswell) == (
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
    )


@pytest.mark.skipif(bool(processor.missing_features(target.load("x86-64-v3"))), reason="this processor has no AVX2")
def test_the_probe_runs_at_a_rate_that_a_core_can_have_and_computes_what_it_should(tmp_path: Path):
    probe = peak.Probe(peak.build_probe(target.load("x86-64-v3"), tmp_path))

    gflops = probe.gflops()

    # 16 flop per cycle (one 256-bit FMA) at 1 GHz up to 64 (two 512-bit) at 7 GHz
    assert 16 < gflops < 448
    assert list(probe._sink)[:8] == [12.0] * 8  # twelve chains of x = x / 2 + 1 / 2, which tend to 1
