"""`farm bench`: a payload's speed beside other runtimes, in one process; no figure without checks."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm import peak, reference, subject
from farm.config import Config
from farm.engine import MAX_THREADS
from farm.rule_files import NO_RULES, UserRules
from farm.scheduler import OnChange, ignore
from farm.subject import Subject
from kernelfarm import canonical, child, files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Options
from toolchains import processor, target

PEERS = ("onnxruntime",)
ROUNDS = 20
LIMITS: Mapping[str, Any] = {"cpu_s": 600, "wall_s": 900.0, "address_space": 16 << 30, "file_size": 1 << 26}


@dataclass(frozen=True, slots=True)
class Question:
    """What to measure. `what` is a model or a bundle (`model` serves a bundle alone, `rules` a model);
    `rounds` turns of A B B A.
    """

    what: Path
    target: str
    options: Options = field(default_factory=Options)
    against: tuple[str, ...] = PEERS
    threads: int = 1
    seed: int = 0
    rounds: int = ROUNDS
    model: Path | None = None
    rules: UserRules = NO_RULES


@dataclass(frozen=True, slots=True)
class Figure:
    """One side: best time of an inference in milliseconds, GF/s by the payload's own count, share of peak.

    The time is CPU time on one thread and real time on several; `cpu_milliseconds` is what all threads spend on an
    inference on average, waiting for each other included.
    """

    name: str
    milliseconds: float
    cpu_milliseconds: float
    gflops: float
    share_of_peak: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one measurement and the reasons why they do not count (none = they do).

    `peak_gflops` is the FMA peak of the same cores: that of one, probed around each round, times their number;
    `ratio_best` our time by the best peer's.
    """

    model: str
    target: str
    payload: str
    threads: int
    cores: tuple[int, ...]
    rounds: int
    flop: int
    peak_gflops: float
    ours: Figure
    peers: tuple[Figure, ...]
    versions: Mapping[str, str]
    max_abs_error: float
    faults: tuple[str, ...]

    @property
    def ratio_best(self) -> float:
        """Ours by the best peer's: below 1 we are faster."""
        return self.ours.milliseconds / min(peer.milliseconds for peer in self.peers)

    @property
    def status(self) -> Status:
        """1 when a check failed: the figures are invalid then."""
        return Status.BAD if self.faults else Status.DONE

    def error(self) -> FarmError:
        """The error of an invalid measurement."""
        return invalid(self.model, self.faults)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, schema "bench-report/2". An invalid one has no "ratio_best"."""
        return {
            "schema": "bench-report/2",
            "model": self.model,
            "target": self.target,
            "payload": self.payload,
            "threads": self.threads,
            "cores": list(self.cores),
            "rounds": self.rounds,
            "flop": self.flop,
            "peak_gflops": self.peak_gflops,
            "ours": canonical.to_json(self.ours),
            "peers": {peer.name: canonical.to_json(peer) for peer in self.peers},
            "versions": dict(self.versions),
            "ratio_best": None if self.faults else self.ratio_best,
            "max_abs_error": self.max_abs_error if math.isfinite(self.max_abs_error) else str(self.max_abs_error),
            "valid": not self.faults,
            "faults": list(self.faults),
        }


def invalid(model: str, faults: Sequence[str]) -> FarmError:
    """The error of figures that fail these checks."""
    advice = "Do not use these figures; measure again on an idle machine, and report it if it comes back."
    return FarmError(Code.FIGURE_INVALID, f"the figures of {model} are invalid", "; ".join(faults), advice)


def bench(settings: Config, question: Question, *, on_change: OnChange = ignore) -> Report:
    """Compile (or take from the cache or the bundle), measure, check.

    Raises `FarmError` USAGE for peers or threads that this release does not measure, NOT_RUNNABLE_HERE, and what
    compiling and the child raise.
    """
    _require_measurable(question)
    wanted = target.load(question.target)
    processor.require_runnable(wanted)
    opened = subject.opened(
        settings,
        question.what,
        question.target,
        question.options,
        rules=question.rules,
        model=question.model,
        on_change=on_change,
    )
    with opened as one, files.temp_folder(settings.home.cache) as work:
        cores = tuple(sorted(os.sched_getaffinity(0))[: question.threads])
        (work / "request.json").write_bytes(
            canonical.dumps(_request(one, question, peak.build_probe(wanted, work), cores))
        )
        found = run_child("farm.bench_child", work)
    return judge(one, question, cores, found)


def judge(one: Subject, question: Question, cores: tuple[int, ...], found: Mapping[str, Any]) -> Report:
    """The report of what the child measured: figures, and every check that they fail. Pure."""
    peak_gflops = float(found["peak_gflops"]) * len(cores)
    whose = "this core" if len(cores) == 1 else f"these {len(cores)} cores"

    def figure(name: str) -> Figure:
        nanoseconds = int(found["best_ns"][name])
        gflops = one.flop / nanoseconds
        return Figure(name, nanoseconds / 1e6, float(found["cpu_ns"][name]) / 1e6, gflops, gflops / peak_gflops)

    ours, peers = figure("ours"), tuple(figure(name) for name in question.against)
    faults = [item["text"] for item in found["agreements"] if not item["holds"]]
    faults += [
        f"{side.name} reaches {side.gflops:.1f} GF/s, above the peak of {whose}, {peak_gflops:.1f} GF/s"
        for side in (ours, *peers)
        if side.gflops > peak_gflops
    ]
    return Report(
        model=one.name,
        target=one.target,
        payload=one.payload,
        threads=question.threads,
        cores=cores,
        rounds=question.rounds,
        flop=one.flop,
        peak_gflops=peak_gflops,
        ours=ours,
        peers=peers,
        versions=found["versions"],
        max_abs_error=max((float(item["max_abs_error"]) for item in found["agreements"]), default=math.inf),
        faults=tuple(faults),
    )


def _require_measurable(question: Question) -> None:
    known = ", ".join(PEERS)
    if unknown := [name for name in question.against if name not in PEERS]:
        raise FarmError(Code.USAGE, f"there is no peer {unknown[0]!r}", "it is not measured here", f"Known: {known}.")
    if not question.against:
        raise FarmError(Code.USAGE, "no peer is named", "a figure is a ratio to another runtime's", f"Known: {known}.")
    most = min(len(os.sched_getaffinity(0)), MAX_THREADS)
    if not 1 <= question.threads <= most:
        what, why = (
            f"{question.threads} threads cannot be measured here",
            f"each has a core of its own, there are {most}",
        )
        raise FarmError(Code.USAGE, what, why, f"Use --threads {most} or fewer.")


def _request(one: Subject, question: Question, probe: Path, cores: tuple[int, ...]) -> dict[str, Any]:
    return {
        "model": str(one.model.absolute()),
        "library": str(one.ready.library.absolute()),
        "layout": str(one.ready.layout.absolute()),
        "target": one.target,
        "probe": str(probe),
        "cores": list(cores),
        "seed": question.seed,
        "rounds": question.rounds,
        "inputs": [{"name": spec.name, "shape": list(spec.shape)} for spec in one.inputs],
        "outputs": [{"name": spec.name, "shape": list(spec.shape)} for spec in one.outputs],
    }


def run_child(module: str, work: Path) -> Mapping[str, Any]:
    """What a measuring child makes of `work`/request.json; raises `FarmError` DEVICE_RUN_FAILED with its last words."""
    argv = [sys.executable, "-I", "-m", module, str(work)]
    ended = child.run_limited(argv, env=reference.environment(work), cwd=work, log_path=work / "log", **LIMITS)
    if not ended.ok:
        how = f"signal {ended.signal}" if ended.signal else f"status {ended.status}"
        said = files.last_line(work / "log")
        raise FarmError(
            Code.DEVICE_RUN_FAILED, f"the measuring process ended by {how}", said, "Run `farm check` first."
        )
    result: Mapping[str, Any] = json.loads((work / "result.json").read_bytes())
    return result
