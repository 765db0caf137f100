"""Sides take turns, and what makes a side's figures count: the shares of peers are judged like our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import measure, picture, table
from benchmarks.measure import INVALID, MEASURED, REFUSED, Measured, Side, Subject
from benchmarks.peers.catalogue import OURS, Peer
from benchmarks.peers.client import RefusedError
from benchmarks.records import Entry, Record
from farm.cases import TensorSpec

ANSWER = np.array([1.0, 2.0], np.float32)
A = Peer("a", "")


class FakeServer:
    """Takes `ns` for a run. `said` collects the names in the order of their turns."""

    said: list[str]
    told: Mapping[str, Mapping[str, Any]]

    def __init__(self, peer: Peer, cores: Sequence[int], log: Path) -> None:
        del cores, log
        self.name = peer.name
        self.how = {"ns": 1000, "cpu_ns": 1000, "strays": 0, "answer": ANSWER, **self.told.get(peer.name, {})}

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def load(self, *_: object, **__: object) -> Mapping[str, Any]:
        if "refuses" in self.how:
            raise RefusedError(self.how["refuses"])
        return {"version": "1", "seconds": 0.5}

    def turn(self, nanoseconds: int, least: int) -> Mapping[str, Any]:
        del nanoseconds
        self.said.append(self.name)
        if self.how.get("dies") == len(self.said):
            raise RefusedError("it ended with status -11: no word")
        times, busy = [self.how["ns"]] * least, least * self.how["cpu_ns"]
        return {"cpu": times, "wall": times, "cpu_ns": busy, "wall_ns": least * self.how["ns"]}

    def outputs(self, specs: Sequence[TensorSpec]) -> dict[str, Any]:
        return {spec.name: self.how["answer"] for spec in specs}

    def ask(self, command: str, **_: object) -> Mapping[str, Any]:
        return {"gflops": 100.0} if command == "peak" else {"strays": self.how["strays"]}


@pytest.fixture
def taken(monkeypatch, tmp_path):
    """Measure with servers that behave as told, by name."""

    def run(told: Mapping[str, Mapping[str, Any]], *, rounds: int = 2, flop: int = 50_000) -> Measured:
        FakeServer.said, FakeServer.told = [], told
        monkeypatch.setattr(measure, "Server", FakeServer)
        subject = Subject("net", tmp_path, tmp_path, {}, [TensorSpec("y", (2,))], {"y": ANSWER}, flop, {})
        return measure.measure(subject, (0,), rounds, tmp_path, peers=(A, Peer("b", "")), kept=tmp_path)

    return run


def test_sides_take_turns_forward_and_backward(taken):
    taken({}, rounds=2)

    warm, forward = ["ours", "a", "b"], ["ours", "a", "b", "b", "a", "ours"]
    assert FakeServer.said == warm + 2 * forward


def test_figures_are_the_best_time_and_ratios_to_each_peer(taken):
    # 50 kFLOP in a microsecond are 50 GF/s, half of a peak of 100
    found = taken({"a": {"ns": 2000, "cpu_ns": 2000}, "b": {"ns": 4000, "cpu_ns": 4000}})

    ours = found.sides["ours"]
    assert (ours.best_ns, ours.gflops, ours.share_of_peak, ours.rounds) == (1000, 50.0, 0.5, [1000, 1000])
    assert (found.ratio("a"), found.ratio("b"), found.best_peer, found.ratio_best) == (0.5, 0.25, "a", 0.5)


def test_a_peer_that_refuses_is_said_to(taken):
    found = taken({"a": {"refuses": "TypeError: no such operator"}})

    side = found.sides["a"]
    assert (side.state, side.why, found.ratio("a"), found.best_peer) == (
        REFUSED,
        "TypeError: no such operator",
        None,
        "b",
    )


def test_a_peer_that_dies_in_its_turn_leaves_the_others_alone(taken):
    found = taken({"a": {"dies": 5}})

    assert found.sides["a"].state == REFUSED
    assert "status -11" in found.sides["a"].why
    assert found.sides["b"].state == found.sides["ours"].state == MEASURED


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"answer": ANSWER + 0.25}, "output 'y' at [0]: 1.25 here, 1 in the reference"),
        ({"strays": 3}, "3 of its threads may leave the cores given"),
        ({"cpu_ns": 1900}, "it used 1.90 cores, 1 were given"),
        ({"ns": 400, "cpu_ns": 400}, "it reaches 125.0 GF/s, above the peak of its cores, 100.0 GF/s"),
    ],
)
@pytest.mark.parametrize("who", ["ours", "a"])
def test_a_side_is_invalid_by_the_same_checks_whoever_it_is(taken, who: str, how: Mapping[str, Any], why: str):
    found = taken({who: how})

    assert found.sides[who].state == INVALID
    assert found.sides[who].why.startswith(why)
    assert found.ratio("a") is None
    assert (found.ratio_best is None) == (who == "ours")


def test_a_slow_side_takes_part_in_few_rounds_only(taken):
    slow = {"ns": 2 * measure.SLOW_NS, "cpu_ns": 2 * measure.SLOW_NS}
    found = taken({"b": slow}, rounds=6)

    assert len(found.sides["b"].rounds) == measure.SLOW_ROUNDS
    assert len(found.sides["ours"].rounds) == 6


def test_without_ours_nothing_is_measured(taken):
    found = taken({OURS.name: {"refuses": "no"}})

    assert FakeServer.said == []
    assert found.ratio_best is None


def record(*ratios: float) -> Record:
    """Models on which ours takes so many times the time of onnxruntime, the only peer."""
    entries = []
    for number, ratio in enumerate(ratios):
        sides = {"ours": Side("ours", best_ns=int(1000 * ratio)), "onnxruntime": Side("onnxruntime", best_ns=1000)}
        entries.append(Entry(f"m{number}", "1x1", figures=Measured(f"m{number}", (0,), 1, 1.0, (0.0, 0.0), sides)))
    return Record("x86-64-v4", 1, 2, entries)


def test_the_summary_has_geometric_means_with_the_bars_verdicts():
    told = "\n".join(table.summary(record(0.5, 0.72, 1.35)))  # the third root of their product is 0.786

    assert "geometric mean to onnxruntime: 0.786, holds (at most 0.90)" in told
    assert "worst model: m2 1.35, does NOT hold (at most 1.30)" in told
    assert "above 1.00: m2 1.35, onnxruntime is faster" in told


def test_the_picture_has_a_bar_for_each_ratio():
    drawn = picture.draw(record(0.5, 3.0))

    widths = [float(box.get("width", "0")) for box in drawn.iter("rect")]
    scale = (picture.WIDTH - picture.LEFT - 60) / picture.LIMIT
    assert widths[:2] == [round(0.5 * scale, 1), round(picture.LIMIT * scale, 1)]  # the second is cut
