"""`farm rebuild`: compiles a bundle's payloads again from their provenance, with no cache and elsewhere, and compares.

The provenance is trusted for nothing: it says which inputs to take, and the bytes decide.
"""

from __future__ import annotations

import locale
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containers.process import ProcessRunner
from containers.runner import Progress, Runner
from farm import (
    actions,
    attest,
    comparisons,
    describe,
    differences,
    elsewhere,
    places,
    rule_files,
    runners,
    subject,
    worker,
)
from farm.actions import Job, Toolbox
from farm.config import Config
from farm.differences import Difference
from farm.origin import origin_of
from farm.payload import payload_digest
from farm.rule_files import NO_RULES, UserRules
from farm.surroundings import BY_ENVIRONMENT, Surroundings, Variation, surroundings
from kernelfarm import canonical, files, nouns, oci_bundle
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Comparison
from kernelfarm.oci_bundle import BundleView, PayloadView
from kernelfarm.store import ContentStore
from signing import client, keys
from signing.comparison import statement
from signing.statement import Provenance
from toolchains import target

OnProgress = Callable[[str, Progress], None]
"""Gets the target's name and what its compile does now."""


def ignore(name: str, progress: Progress) -> None:
    """The `OnProgress` that does nothing."""
    del name, progress


COMPILER = "kernelc"
_LOCALES = ("tr_TR.UTF-8", "de_DE.UTF-8", "ja_JP.UTF-8", "fr_FR.UTF-8", "C.UTF-8")


@dataclass(frozen=True, slots=True)
class Question:
    """What to rebuild: the bundle in a folder, all its targets or those named, varying these things at once.

    `model` and `rules` are for what the store lacks.
    `runner` compiles; what its sandbox fixes cannot be varied.
    """

    bundle: Path
    variations: tuple[Variation, ...] = ()
    targets: tuple[str, ...] = ()
    model: Path | None = None
    key: str = keys.DEFAULT
    rules: UserRules = NO_RULES
    runner: Runner = field(default_factory=ProcessRunner)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """One payload and its rebuild. `unvaried` holds what was asked to vary and could not be, each with the reason."""

    model: str
    target: str
    comparison: Comparison
    differences: tuple[Difference, ...] = ()
    unvaried: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The rebuild as a JSON object."""
        return {
            "model": self.model,
            "target": self.target,
            "same": self.comparison.same,
            "payload": self.comparison.original,
            "rebuilt": self.comparison.rebuilt,
            "recipe_key": self.comparison.recipe_key,
            "varied": list(self.comparison.varied),
            "unvaried": list(self.unvaried),
            "differences": [canonical.to_json(item) for item in self.differences],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The payloads of a bundle that were asked for, by target. `recorded`: off the record, nothing was compiled.

    `unattested` is why the comparisons were not signed and added to the bundle; empty when they were.
    """

    bundle: Digest
    rebuilt: tuple[Rebuilt, ...]
    recorded: bool = False
    unattested: str = ""

    @property
    def same(self) -> bool:
        """Every payload has at least one rebuild here, and all of them gave its very bytes."""
        return bool(self.rebuilt) and all(one.comparison.same for one in self.rebuilt)

    @property
    def status(self) -> Status:
        """1 when any differs."""
        return Status.DONE if self.same or (self.recorded and not self.rebuilt) else Status.BAD

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, schema "rebuild-report/1"."""
        return {
            "schema": "rebuild-report/1",
            "bundle": self.bundle,
            "same": self.same,
            "recorded": self.recorded,
            "attested": not self.unattested and not self.recorded,
            "unattested": self.unattested,
            "rebuilt": [one.to_json() for one in self.rebuilt],
        }

    def error(self) -> FarmError:
        """The error of a report in which a payload differs."""
        one = next(one for one in self.rebuilt if not one.comparison.same)
        return FarmError(
            Code.REBUILD_DIFFERS,
            f"the rebuild of {one.model} for {one.target} differs",
            "; ".join(item.describe() for item in one.differences) or f"it is {one.comparison.rebuilt}",
            "Do not release this payload. `farm rebuild --vary` with one word at a time finds the cause.",
            {"target": one.target, "files": [item.file for item in one.differences]},
        )


def rebuild(settings: Config, question: Question, *, on_progress: OnProgress = ignore) -> Report:
    """Rebuild, record a comparison for each payload, and attest it in the bundle where that is signed by the same key.

    Raises `FarmError` BUNDLE_* for a damaged bundle, RECIPE_CHANGED when this farm's compiler, runtime, tools or target
    files are not those of the provenance, MODEL_UNAVAILABLE, RULES_UNAVAILABLE, VARIATION_UNAVAILABLE, and what a
    failed compile raises.
    """
    view = oci_bundle.read(question.bundle).require()
    home = settings.home.create()
    chosen, unvaried = possible(question.variations, sealed=question.runner.sealed)
    execution = question.runner.execution()
    box = actions.toolbox(execution, runners.tools_of(home, execution))
    rebuilt = []
    for payload in _in_order(_wanted(view, question.targets), chosen):
        made = origin_of(view, payload)
        job = same_job(made, box)
        words = settings.scrub_words
        subject.take_model(made.model, ContentStore(home.store), question.model, home.cache, words)
        rule_files.require(made.recipe.options.rules, ContentStore(home.store), question.rules)
        one = _rebuild(settings, view, payload, job, chosen, question.runner, on_progress)
        comparisons.record(home, one.comparison)
        rebuilt.append(Rebuilt(made.model.name, payload.target, one.comparison, one.differences, unvaried))
    rebuilt.sort(key=lambda item: item.target)
    return Report(view.digest, tuple(rebuilt), unattested=_attest(settings, question, view, rebuilt))


def _attest(settings: Config, question: Question, view: BundleView, rebuilt: Sequence[Rebuilt]) -> str:
    """Sign the comparisons and add them to the bundle; why not, where that cannot be."""
    home = settings.home
    try:
        public = keys.load_public(keys.find(home, question.key).public)
        if not attest.is_own(view, public):
            return f"the bundle is signed with another key than {question.key!r}"
        made = [statement(one.comparison, f"{one.model}/{one.target}") for one in rebuilt]
        with files.locked(home.run / "attest"), client.open_signer(home, question.key) as signer:
            attest.attach(question.bundle, made, signer)
    except FarmError as error:
        if error.code is not Code.KEY_MISSING and error.status is not Status.ENVIRONMENT:
            raise
        return str(error)
    return ""


def on_record(settings: Config, question: Question) -> Report:
    """What the record holds of a bundle's payloads: with variations, the comparisons that varied at least these."""
    view = oci_bundle.read(question.bundle).require()
    asked = {variation.value for variation in possible(question.variations, sealed=question.runner.sealed)[0]}
    found = [
        Rebuilt(view.name, payload.target, comparison)
        for payload in _wanted(view, question.targets)
        for comparison in comparisons.recorded(settings.home, payload.digest)
        if asked <= set(comparison.varied)
        and comparison.recipe_key == nouns.recipe_key(origin_of(view, payload).recipe)
    ]
    return Report(view.digest, tuple(found), recorded=True)


def same_job(made: Provenance, box: Toolbox) -> Job:
    """The job by this farm's own sources, tools and target file; raises RECIPE_CHANGED when the recipe is another."""
    job = actions.job_of(made.model, target.load(made.target_name), made.recipe.options, box)
    ours, theirs = canonical.to_json(job.action.recipe), canonical.to_json(made.recipe)
    changed = sorted(name for name in theirs if ours[name] != theirs[name])
    if changed:
        raise FarmError(
            Code.RECIPE_CHANGED,
            f"this farm would not make the payload for {made.target_name} in the same way",
            f"changed since: {', '.join(changed)}",
            "Rebuild with the version of the farm that its provenance names.",
            {"changed": changed, "recipe_key": nouns.recipe_key(made.recipe)},
        )
    return job


def possible(variations: Sequence[Variation], *, sealed: bool = False) -> tuple[tuple[Variation, ...], tuple[str, ...]]:
    """What this machine can vary, and the rest with reasons; raises VARIATION_UNAVAILABLE when nothing is left.

    A sandbox fixes everything but the environment; it is itself another place, so that nothing need be left.
    """
    chosen = tuple(variations)
    if sealed:
        fixed = tuple(
            f"{variation.value}: the sandbox fixes it" for variation in chosen if variation not in BY_ENVIRONMENT
        )
        return tuple(variation for variation in chosen if variation in BY_ENVIRONMENT), fixed
    if Variation.HOST_NAME not in chosen:
        return chosen, ()
    reason = _no_host_name()
    if not reason:
        return chosen, ()
    rest = tuple(variation for variation in chosen if variation is not Variation.HOST_NAME)
    if not rest:
        raise FarmError(Code.VARIATION_UNAVAILABLE, "the host name cannot be varied here", reason)
    return rest, (f"hostname: {reason}",)


def _no_host_name() -> str:
    """Why a process here cannot have a host name of its own; empty when it can."""
    launcher = surroundings([Variation.HOST_NAME]).launcher(0)
    done = subprocess.run(launcher, capture_output=True, text=True, check=False)
    if done.returncode not in (0, elsewhere.NO_NAMESPACE):
        return f"the launcher ended with status {done.returncode}"
    return done.stderr.strip() if done.returncode else ""


def _wanted(view: BundleView, names: Sequence[str]) -> list[PayloadView]:
    return [subject.payload_of(view, name) for name in sorted(set(names))] if names else list(view.payloads)


def _in_order(payloads: list[PayloadView], chosen: Sequence[Variation]) -> list[PayloadView]:
    return payloads[::-1] if Variation.ORDER in chosen else payloads


def _rebuild(
    settings: Config,
    view: BundleView,
    payload: PayloadView,
    job: Job,
    chosen: tuple[Variation, ...],
    runner: Runner,
    on_progress: OnProgress,
) -> Rebuilt:
    home = settings.home
    around = surroundings(chosen, locale=some_locale(), home="/nonexistent/home")
    with files.temp_folder(home.cache) as work:
        scratch = work / (around.directory or "scratch")
        scratch.mkdir()
        worker.prepare(scratch / "in", job, ContentStore(home.store), around.cores or len(os.sched_getaffinity(0)))
        accepted, _ended = _around(runner, around).compile_in(
            scratch,
            log_path=work / "log",
            limits=settings.limits,
            on_progress=lambda progress: on_progress(payload.target, progress),
        )
        rebuilt = payload_digest(describe.completed(job, accepted).folder)
        unlike: tuple[Difference, ...] = ()
        if rebuilt != payload.digest:
            first = subject.extract(view, payload, work / "first")
            unlike = differences.between(first, accepted.folder, locate=places.of_payload(first))
    comparison = Comparison(
        job.action.recipe_key,
        payload.digest,
        rebuilt,
        job.action.execution,
        tuple(variation.value for variation in chosen),
        tuple(item.found for item in unlike),
        worker=f"rebuild@{socket.gethostname()}",  # one name for all of a host's: they count as one worker
        host=socket.gethostname(),
    )
    return Rebuilt(job.model.name, payload.target, comparison, unlike)


def _around(runner: Runner, around: Surroundings) -> Runner:
    """The runner with these surroundings for its compiler."""
    if isinstance(runner, ProcessRunner):
        runner = ProcessRunner(program=(*around.launcher(min(os.sched_getaffinity(0))), COMPILER))
    return runner.with_environment(around.environment)


def some_locale() -> str:
    """A locale of this machine that differs from C as much as may be."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in _LOCALES:
            try:
                locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue
            return name
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return "C"
