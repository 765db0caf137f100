"""`farm check`: a payload's outputs beside the reference runtime's, or beside those that a test folder gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from farm import agreement, cases, native, reference, subject
from farm.agreement import Agreement, Array
from farm.config import Config
from farm.native import NotRunnableError
from farm.rule_files import NO_RULES, UserRules
from farm.scheduler import OnChange, ignore
from farm.subject import Subject
from kernelfarm import digest, files, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Options
from toolchains import emulator, target
from toolchains.emulator import Kind, Runner

Outputs = Mapping[str, Array]
Answers = dict[Digest, Outputs]
"""What the reference runtime answered, by the digest of model and inputs."""
NATIVE_CASES, EMULATED_CASES = 10, 1
_PEER = "onnxruntime"
_HINT = " Of Resize and ConvTranspose see first docs/reference/onnxruntime.md: where onnxruntime answers otherwise."


@dataclass(frozen=True, slots=True)
class Question:
    """What to check. `what` is a model, a folder in ONNX's test layout or a bundle; `model` serves a bundle alone,
    `rules` everything else.

    `inputs` are a user's .npy files, one for each input; without them `count` seeded cases are run, by default
    `NATIVE_CASES`, or `EMULATED_CASES` in an emulator.
    """

    what: Path
    target: str
    options: Options = field(default_factory=Options)
    inputs: Mapping[str, Path] = field(default_factory=dict)
    seed: int = 0
    count: int | None = None
    model: Path | None = None
    rules: UserRules = NO_RULES


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it. `worst` holds for each output the agreement of its worst case, by the case's number.

    When `reason` is not empty nothing was run, and it says why; `missing_tool` where a tool would have made the run
    possible. `how` is "native" or names the emulator.
    """

    name: str
    target: str
    payload: str
    cached: bool
    against: str
    cases: int
    worst: tuple[tuple[int, Agreement], ...] = ()
    reason: str = ""
    how: str = "native"
    missing_tool: bool = False

    @property
    def ran(self) -> bool:
        """The payload could be run here, natively or emulated."""
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
        """1 outside the tolerance; 0 also where nothing could be run, which is said plainly."""
        return Status.DONE if self.holds or not self.ran else Status.BAD

    def status_for(self, settings: Config) -> Status:
        """As `status`; but where nobody looks on, a run that a missing tool kept from being made is a failure."""
        return Status.ENVIRONMENT if settings.ci and self.missing_tool else self.status

    def error(self) -> FarmError:
        """The error of a report that does not hold, naming output, index and both values."""
        case, found = next((case, found) for case, found in self.worst if not found.holds)
        return FarmError(
            Code.OUTSIDE_TOLERANCE,
            f"{self.name} for {self.target} is outside the tolerance",
            f"case {case}: {found.describe()}",
            "Do not ship this payload; report the model and the case." + (_HINT if self.against == _PEER else ""),
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
            "how": self.how if self.ran else "not run",
            "reason": self.reason,
            "missing_tool": self.missing_tool,
            "holds": self.holds,
            "against": self.against,
            "cases": self.cases,
            "tolerance": {"absolute": agreement.ABSOLUTE, "relative": agreement.RELATIVE},
            "max_abs_error": _number(self.max_abs_error) if self.ran else None,
            "outputs": [_output(case, found) for case, found in self.worst],
        }


def check(
    settings: Config, question: Question, *, known: Answers | None = None, on_change: OnChange = ignore
) -> Report:
    """Compile (or take from the cache or the bundle), run natively or in the target's emulator, compare.

    `known` holds what the reference runtime answered before, and gets what it answers now: several targets of a model
    need it once. Raises `FarmError` for everything that keeps the comparison from being made, but for a machine that
    cannot run it.
    """
    with _opened(settings, question, on_change) as one, files.temp_folder(settings.home.cache) as work:
        folders = {name: work / name for name in ("read", "device", "reference")}
        for folder in folders.values():
            folder.mkdir()
        runner = runner_of(one.target)
        fed, expected = _cases(one, question, folders["read"], runner.kind)
        blank = Report(one.name, one.target, one.payload, one.cached, _peer(expected), 0, how=how(runner))
        if runner.kind is Kind.UNAVAILABLE:
            return replace(blank, reason=runner.reason, missing_tool=bool(target.load(one.target).run.emulator))
        try:
            ready = replace(one.ready, emulator=runner.argv_prefix)
            ours = native.run(ready, one.inputs, one.outputs, fed, folders["device"])
        except NotRunnableError as reason:
            return replace(blank, reason=str(reason))
        theirs = expected or _reference(one, fed, folders["reference"], {} if known is None else known)
    return replace(blank, cases=len(fed), worst=worst_of(ours, theirs))


def targets_of(what: Path) -> tuple[str, ...]:
    """The targets of a bundle; raises `FarmError` USAGE for something else, which has none of its own."""
    if not subject.is_bundle(what):
        raise FarmError(Code.USAGE, "no target is given", f"{what} is no bundle", "Choose with -t; see `farm targets`.")
    return tuple(payload.target for payload in oci_bundle.read(what).require().payloads)


def runner_of(name: str) -> Runner:
    """How programs of a target run here; one that a bundle has and this farm does not know is tried natively."""
    return emulator.runner(target.load(name)) if name in target.names() else Runner((), Kind.NATIVE, "")


def how(runner: Runner) -> str:
    """What runs programs, for a report: "native", or the emulator with its arguments."""
    return " ".join([Path(runner.argv_prefix[0]).name, *runner.argv_prefix[1:]]) if runner.argv_prefix else "native"


def _peer(expected: Sequence[Outputs]) -> str:
    return "the outputs in the folder" if expected else _PEER


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
        settings,
        what,
        question.target,
        question.options,
        rules=question.rules,
        model=question.model,
        on_change=on_change,
        name=name,
    )
    with opened as one:
        yield one


def _cases(
    one: Subject, question: Question, work: Path, kind: Kind
) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """The inputs of each case, and the expected outputs where the question brings them."""
    if question.inputs:
        return [cases.from_files(one.inputs, question.inputs)], []
    if not question.what.is_dir() or subject.is_bundle(question.what):
        count = question.count or (EMULATED_CASES if kind is Kind.EMULATED else NATIVE_CASES)
        return cases.seeded(one.inputs, seed=question.seed, count=count), []
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


def _reference(one: Subject, fed: Sequence[Outputs], work: Path, known: Answers) -> list[Outputs]:
    names = ([spec.name for spec in one.inputs], [spec.name for spec in one.outputs])
    model = digest.of_file(one.model).encode()
    keys = [digest.of_bytes(b"".join([model, *(feeds[name].tobytes() for name in names[0])])) for feeds in fed]
    missing = {key: feeds for key, feeds in zip(keys, fed, strict=True) if key not in known}
    if missing:
        known.update(zip(missing, reference.run(one.model, *names, list(missing.values()), work), strict=True))
    return [known[key] for key in keys]


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
