"""`farm explain --measure`: each operation of a payload timed where it stands; no figure without checks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from farm import bench, entries, payload, peak, subject
from farm.config import Config
from farm.rule_files import NO_RULES, UserRules
from farm.scheduler import OnChange, ignore
from farm.subject import Subject
from kernelc.explanation import Explanation, KernelStory
from kernelc.schedule.classes import CLASSES
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Options
from toolchains import processor, target
from toolchains.target import Target

ROUNDS = 40
AGREEMENT = 0.10
"""How far the sum of the parts may be from the whole inference."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to measure: a model for a target, in so many rounds, with an input of this seed."""

    path: Path
    target: str
    options: Options = field(default_factory=Options)
    rules: UserRules = NO_RULES
    seed: int = 0
    rounds: int = ROUNDS


@dataclass(frozen=True, slots=True)
class Part:
    """An operation: CPU time of an inference that it takes, in nanoseconds, and what the model said."""

    story: KernelStory
    nanoseconds: int
    predicted_ns: float

    @property
    def gflops(self) -> float:
        """GF/s by the payload's own count."""
        return self.story.flop / self.nanoseconds


@dataclass(frozen=True, slots=True)
class Sum:
    """The operations of one class together."""

    family: str
    count: int
    nanoseconds: int
    flop: int
    predicted_ns: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one measurement and the reasons why they do not count (none = they do).

    `whole_ns` is an inference by the same calls without a clock in between, `engine_ns` one by the runtime;
    `reading_ns` is what the clock itself takes, left out of all parts.
    """

    model: str
    target: str
    payload: str
    core: int
    rounds: int
    inferences: int
    peak_gflops: float
    reading_ns: int
    engine_ns: int
    whole_ns: int
    parts: tuple[Part, ...]
    faults: tuple[str, ...]

    @property
    def sum_ns(self) -> int:
        """All parts together."""
        return sum(part.nanoseconds for part in self.parts)

    @property
    def status(self) -> Status:
        """1 when a check failed: the figures are invalid then."""
        return Status.BAD if self.faults else Status.DONE

    def error(self) -> FarmError:
        """The error of an invalid measurement."""
        return bench.invalid(self.model, self.faults)

    def sums(self) -> tuple[Sum, ...]:
        """The parts by class, those that multiply most first."""
        found = []
        for family in CLASSES:
            some = [part for part in self.parts if part.story.family == family]
            if some:
                times = sum(part.nanoseconds for part in some), sum(part.story.flop for part in some)
                found.append(Sum(family, len(some), *times, sum(part.predicted_ns for part in some)))
        return tuple(found)

    def losers(self, count: int) -> tuple[Part, ...]:
        """The parts that take most time beyond what the FMA peak would need for their arithmetic."""
        lost = sorted(self.parts, key=lambda part: part.story.flop / self.peak_gflops - part.nanoseconds)
        return tuple(lost[:count])

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON, schema "measurement/1"; `of_peak` and `share` are fractions."""
        return {
            "schema": "measurement/1",
            **{name: getattr(self, name) for name in ("payload", "core", "rounds", "inferences", "peak_gflops")},
            **{name: getattr(self, name) for name in ("reading_ns", "engine_ns", "whole_ns", "sum_ns")},
            "kernels": [self._part(part) for part in self.parts],
            "classes": [canonical.to_json(one) for one in self.sums()],
            "losers": [part.story.name for part in self.losers(5)],
            "valid": not self.faults,
            "faults": list(self.faults),
        }

    def _part(self, part: Part) -> dict[str, Any]:
        return {
            "name": part.story.name,
            "nanoseconds": part.nanoseconds,
            "share": part.nanoseconds / self.sum_ns,
            "gflops": part.gflops,
            "of_peak": part.gflops / self.peak_gflops,
            "predicted_ns": part.predicted_ns,
            "ratio": part.predicted_ns / part.nanoseconds,
        }


def require_measurable(target_name: str) -> None:
    """Raises `FarmError` NOT_RUNNABLE_HERE for a target that this processor cannot run."""
    processor.require_runnable(target.load(target_name))


def measure(settings: Config, question: Question, told: Explanation, *, on_change: OnChange = ignore) -> Report:
    """Compile what was `told` of (or take it from the cache), time it, check.

    Raises `FarmError` NOT_RUNNABLE_HERE, and what compiling and the child raise.
    """
    require_measurable(question.target)
    wanted = target.load(question.target)
    asked = question.options, question.rules
    with (
        subject.compiled(
            settings, question.path, question.target, asked[0], rules=asked[1], on_change=on_change
        ) as one,
        files.temp_folder(settings.home.cache) as work,
    ):
        core = min(os.sched_getaffinity(0))
        (work / "request.json").write_bytes(canonical.dumps(_request(one, question, wanted, work, core)))
        found = bench.run_child("farm.measure_child", work)
    return judge(one, question, told, core, found)


def judge(one: Subject, question: Question, told: Explanation, core: int, found: Mapping[str, Any]) -> Report:
    """The report of what the child measured: figures, and every check that they fail. Pure."""
    groups = [(group["name"], group["symbol"]) for group in one.config["groups"]]
    if groups != [(story.name, story.symbol) for story in told.kernels]:
        raise FarmError(Code.INTERNAL, "the payload is not what was explained", "its kernels are others")
    vector, peak_gflops = target.load(one.target).vector, float(found["peak_gflops"])
    gigahertz = peak_gflops / (2 * vector.f32_lanes * vector.fma_ports)
    parts = tuple(
        Part(story, max(1, took - found["reading_ns"]), story.half_cycles / (2 * gigahertz))
        for story, took in zip(told.kernels, found["timed_ns"], strict=True)
    )
    report = Report(
        one.name, one.target, one.payload, core, question.rounds, found["inferences"], peak_gflops,
        found["reading_ns"], found["engine_ns"], found["table_ns"], parts, (),
    )  # fmt: skip
    return replace(report, faults=tuple(_faults(report, equal=found["equal"])))


def _faults(report: Report, *, equal: bool) -> Sequence[str]:
    faults = [] if equal else ["the timed inference gives other bits than an ordinary one"]
    ratio = report.sum_ns / report.whole_ns
    if not math.isclose(ratio, 1, abs_tol=AGREEMENT):
        faults.append(f"the parts take {ratio:.2f} of the whole inference: something else ran meanwhile")
    faults += [
        f"{part.story.name} reaches {part.gflops:.1f} GF/s, above the peak of this core, {report.peak_gflops:.1f} GF/s"
        for part in report.parts
        if part.gflops > report.peak_gflops
    ]
    return faults


def _request(one: Subject, question: Question, wanted: Target, work: Path, core: int) -> dict[str, Any]:
    folder = one.ready.library.absolute().parent
    return {
        "library": str(one.ready.library.absolute()),
        "layout": str(one.ready.layout.absolute()),
        "kernels": str(folder / payload.KERNELS),
        "weights": str(folder / payload.WEIGHTS),
        "entries": str(entries.build(wanted, work)),
        "probe": str(peak.build_probe(wanted, work)),
        "target": one.target,
        "core": core,
        "seed": question.seed,
        "rounds": question.rounds,
        "inputs": [{"name": spec.name, "shape": list(spec.shape)} for spec in one.inputs],
        "outputs": [{"name": spec.name, "shape": list(spec.shape)} for spec in one.outputs],
    }
