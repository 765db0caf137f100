"""A model made ready to be measured: our payload, the files that peers get, inputs, and the answers expected."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import exported
from benchmarks.measure import Subject
from farm import cases, peak, reference, shapes, subject
from farm.config import Config
from farm.subject import Subject as Payload
from kernelfarm import files
from kernelfarm.errors import Code, FarmError
from tests.support import models
from tests.support.models import PackagedModel
from toolchains import processor, target

SEED = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is measured, the payload behind it, and an empty folder to work in."""

    subject: Subject
    payload: Payload
    work: Path


def all_models() -> tuple[PackagedModel, ...]:
    """The models of the bar: seven real ones, and six architectures with random weights."""
    return (*models.MODELS, *models.OTHERS, *models.SHARED, *exported.EXPORTED.values())


def find(name: str) -> PackagedModel:
    """The model with that name; raises `FarmError` USAGE."""
    for model in all_models():
        if model.name == name:
            return model
    known = ", ".join(model.name for model in all_models())
    raise FarmError(Code.USAGE, f"unknown model {name!r}", next_step=f"Known: {known}.")


def fetch(model: PackagedModel) -> Path:
    """Path of its file; raises `FarmError` FILE_MISSING for one that is not there and how to get it."""
    return exported.fetch(model.name) if model.name in exported.EXPORTED else models.fetch(model.name)


def best_target() -> str:
    """Of the targets that this processor runs the one with the highest preference; raises `FarmError`."""
    runnable = [one for one in map(target.load, target.names()) if processor.runs(one)]
    if not runnable:
        raise FarmError(
            Code.NOT_RUNNABLE_HERE,
            "this processor runs no target",
            "there is nothing to measure",
            "Measure on a processor of one of the targets (`farm targets`).",
        )
    return max(runnable, key=lambda one: one.preference).name


@contextlib.contextmanager
def prepared(settings: Config, model: PackagedModel, target_name: str) -> Iterator[Prepared]:
    """Compile, or take from the cache, and prepare; raises `FarmError` as a build does, and REFERENCE_FAILED."""
    given = shapes.parse([model.shape])
    with (
        subject.compiled(settings, fetch(model), target_name, given, name=model.name) as one,
        files.temp_folder(settings.home.cache) as work,
    ):
        (fed,) = cases.seeded(one.inputs, seed=SEED, count=1)
        fixed, folded = work / "fixed.onnx", work / "folded.onnx"
        _fold(one, fixed, folded)
        exchange = work / "reference"
        exchange.mkdir()
        names = [spec.name for spec in one.inputs], [spec.name for spec in one.outputs]
        (expected,) = reference.run(one.model, *names, [fed], exchange)
        probe = peak.build_probe(target.load(target_name), work)
        more = {
            "library": str(one.ready.library.absolute()),
            "layout": str(one.ready.layout.absolute()),
            "payload": str(one.ready.library.parent.absolute()),
            "target": one.target,
            "probe": str(probe),
        }
        yield Prepared(Subject(model.name, fixed, folded, fed, one.outputs, expected, one.flop, more), one, work)


def _fold(one: Payload, fixed: Path, folded: Path) -> None:
    given = [f"{spec.name}={'x'.join(str(size) for size in spec.shape)}" for spec in one.inputs]
    words = ["-m", "benchmarks.peers.fold", str(one.model.absolute()), str(fixed), str(folded), *given]
    done = subprocess.run([sys.executable, *words], cwd=models.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        what = f"the model {one.name} could not be prepared for other runtimes"
        raise FarmError(Code.REFERENCE_FAILED, what, last, "Run `farm check` on it first.")
