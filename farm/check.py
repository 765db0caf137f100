"""`farm check`: a payload's outputs beside the reference runtime's, or beside those that a test folder gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm import agreement, cases, native, reference, subject
from farm.agreement import Agreement, Array
from farm.config import Config
from farm.native import NotRunnableError
from farm.scheduler import OnChange, ignore
from farm.subject import Subject
from kernelfarm import files
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Options

Outputs = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Question:
    """What to check. `what` is a model, a folder in ONNX's test layout or a bundle; `model` serves a bundle alone.

    `inputs` are a user's .npy files, one for each input; without them `count` seeded cases are run.
    """

    what: Path
    target: str
    options: Options = field(default_factory=Options)
    inputs: Mapping[str, Path] = field(default_factory=dict)
    seed: int = 0
    count: int = 10
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it. `worst` holds for each output the agreement of its worst case, by the case's number.

    When `reason` is not empty nothing was run: this processor cannot, and the reason is the device runtime's.
    """

    name: str
    target: str
    payload: str
    cached: bool
    against: str
    cases: int
    worst: tuple[tuple[int, Agreement], ...] = ()
    reason: str = ""

    @property
    def ran(self) -> bool:
        """The payload could be run here."""
        return not self.reason

    @property
    def holds(self) -> bool:
        """Every output of every case is within the tolerance; nothing that was not run holds."""
        return self.ran and bool(self.worst) and all(found.holds for _case, found in self.worst)

    @property
    def max_abs_error(self) -> float:
        """Largest absolute error over all outputs and cases."""
        return max((found.max_abs_error for _case, found in self.worst), default=float("nan"))

    @property
    def status(self) -> Status:
        """1 outside the tolerance; 0 also when this processor cannot run the target, which is said plainly."""
        return Status.DONE if self.holds or not self.ran else Status.BAD

    def error(self) -> FarmError:
        """The error of a report that does not hold, naming output, index and both values."""
        case, found = next((case, found) for case, found in self.worst if not found.holds)
        return FarmError(
            Code.OUTSIDE_TOLERANCE,
            f"{self.name} for {self.target} is outside the tolerance",
            f"case {case}: {found.describe()}",
            "Do not ship this payload; report the model and the case.",
            {"case": case, "output": found.output, "index": list(found.index)},
        )

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, schema "check-report/1"; numbers that JSON has no word for are texts."""
        return {
            "schema": "check-report/1",
            "model": self.name,
            "target": self.target,
            "payload": self.payload,
            "cached": self.cached,
            "ran": self.ran,
            "reason": self.reason,
            "holds": self.holds,
            "against": self.against,
            "cases": self.cases,
            "tolerance": {"absolute": agreement.ABSOLUTE, "relative": agreement.RELATIVE},
            "max_abs_error": _number(self.max_abs_error) if self.ran else None,
            "outputs": [_output(case, found) for case, found in self.worst],
        }


def check(settings: Config, question: Question, *, on_change: OnChange = ignore) -> Report:
    """Compile (or take from the cache or the bundle), run, compare.

    Raises `FarmError` for everything that keeps the comparison from being made.
    """
    with _opened(settings, question, on_change) as one, files.temp_folder(settings.home.cache) as work:
        folders = {name: work / name for name in ("read", "device", "reference")}
        for folder in folders.values():
            folder.mkdir()
        fed, expected = _cases(one, question, folders["read"])
        against = "the outputs in the folder" if expected else "onnxruntime"
        try:
            ours = native.run(one.ready, one.inputs, one.outputs, fed, folders["device"])
        except NotRunnableError as reason:
            return Report(one.name, one.target, one.payload, one.cached, against, 0, reason=str(reason))
        theirs = expected or _reference(one, fed, folders["reference"])
    return Report(one.name, one.target, one.payload, one.cached, against, len(fed), worst_of(ours, theirs))


def worst_of(ours: Sequence[Outputs], theirs: Sequence[Outputs]) -> tuple[tuple[int, Agreement], ...]:
    """For each output, in their order, the case that agrees least: outside the tolerance first, then by error."""
    worst: dict[str, tuple[int, Agreement]] = {}
    for case, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for name in b:
            found = agreement.compare(name, a[name], b[name])
            held = worst.get(name)
            if held is None or (found.holds, -found.max_abs_error) < (held[1].holds, -held[1].max_abs_error):
                worst[name] = (case, found)
    return tuple(worst.values())


@contextlib.contextmanager
def _opened(settings: Config, question: Question, on_change: OnChange) -> Iterator[Subject]:
    what, name = question.what, ""
    if what.is_dir() and not subject.is_bundle(what):
        what, name = reference.test_folder(what).model, what.absolute().name
    opened = subject.opened(
        settings, what, question.target, question.options, model=question.model, on_change=on_change, name=name
    )
    with opened as one:
        yield one


def _cases(one: Subject, question: Question, work: Path) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """The inputs of each case, and the expected outputs where the question brings them."""
    if question.inputs:
        return [cases.from_files(one.inputs, question.inputs)], []
    if not question.what.is_dir() or subject.is_bundle(question.what):
        return cases.seeded(one.inputs, seed=question.seed, count=question.count), []
    return _from_folder(one, question.what, work)


def _from_folder(one: Subject, folder: Path, work: Path) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    sets = reference.test_folder(folder).sets
    flat = [path for pair in sets for side in pair for path in side]
    tensors = dict(zip(flat, reference.read_tensors(flat, work), strict=True))
    fed, expected = [], []
    for paths_in, paths_out in sets:
        for specs, paths, side in ((one.inputs, paths_in, "input"), (one.outputs, paths_out, "output")):
            if len(specs) != len(paths):
                why = f"the model has {len(specs)} {side}s, {paths_out[0].parent.name} has {len(paths)}"
                raise FarmError(Code.CASE_INVALID, f"the test data in {folder.name!r} does not fit the model", why)
        fed.append(
            {spec.name: cases.fitted(spec, tensors[path]) for spec, path in zip(one.inputs, paths_in, strict=True)}
        )
        expected.append({spec.name: tensors[path] for spec, path in zip(one.outputs, paths_out, strict=True)})
    return fed, expected


def _reference(one: Subject, fed: Sequence[Outputs], work: Path) -> list[dict[str, Array]]:
    names = ([spec.name for spec in one.inputs], [spec.name for spec in one.outputs])
    return reference.run(one.model, *names, fed, work)


def _number(value: float) -> float | str:
    return value if abs(value) < float("inf") else str(value)


def _output(case: int, found: Agreement) -> dict[str, Any]:
    return {
        "output": found.output,
        "holds": found.holds,
        "case": case,
        "max_abs_error": _number(found.max_abs_error),
        "index": list(found.index),
        "ours": _number(found.ours),
        "reference": _number(found.reference),
        "text": found.describe(),
    }
