"""`farm build`: compile models for targets into signed bundles."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli import ids, output
from farm.cli.command import Command
from farm.cli.licence_options import licence_options
from farm.cli.parameters import RUNNER, TARGET, rules_option
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.build import Built, Order
    from farm.scheduler import Cell, Session

EPILOG = """\b
Examples:
  farm build model.onnx -t x86-64-v3
  farm build model.onnx -t x86-64-v3 -t x86-64-v4 --shape 1x3x48x192 --out bundles
  farm build model.onnx -t x86-64-v3 --rules fusion.yaml
  farm build a.onnx b.onnx -t x86-64-v3 --shape image=1x3x64x64 --version 1.2.0 --json

A key is needed once: farm keys new. The second build of the same thing takes everything from the cache.
Ctrl-C loses nothing that is compiled: farm build --resume ID goes on."""


@click.command("build", cls=Command, epilog=EPILOG)
@click.argument("models", nargs=-1, metavar="MODEL...", type=click.Path(path_type=Path))
@click.option(
    "-t",
    "--target",
    "targets",
    type=TARGET,
    multiple=True,
    help="Compile for this target, or device:NAME; may be repeated.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="[NAME=]1x3x48x192",
    help="Shape of an input, also in place of a fixed one; may be repeated.",
)
@rules_option("Fusion rules in YAML or JSON beside the farm's own; may be repeated.")
@click.option(
    "--out", default="bundles", show_default=True, type=click.Path(path_type=Path), help="Folder of the bundles."
)
@click.option("--name", help="Name of the bundle; the model's file name otherwise. One model only.")
@click.option("--version", metavar="1.2.0", help="Version of the bundles: an annotation, it changes no payload.")
@click.option(
    "--scrub-word",
    "scrub_words",
    multiple=True,
    metavar="WORD",
    help="Word that may stay in no name of a model or bundle, beside those of FARM_SCRUB_WORDS; may be repeated.",
)
@licence_options
@click.option("--scan-licences", is_flag=True, help="Scan everything that ships before a bundle is written.")
@click.option("--key", default="default", show_default=True, help="Name of the signing key.")
@click.option("--no-cache", is_flag=True, help="Compile even what the cache holds, and compare.")
@click.option(
    "--runner",
    type=RUNNER,
    help="Where compiles run: auto, docker, bubblewrap or process; FARM_RUNNER otherwise, else the best that is ready.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), metavar="N", help="Compiles at once; the number of cores otherwise."
)
@click.option(
    "--broker", metavar="URL", help="Redis whose workers compile, else FARM_BROKER_URL; else this process's own."
)
@click.option(
    "--no-wait", is_flag=True, help="Leave the compiles to the broker's workers; --resume writes the bundles."
)
@click.option("--resume", metavar="ID", help="Go on with a build that was interrupted or not waited for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    models: tuple[Path, ...],
    targets: tuple[str, ...],
    shapes: tuple[str, ...],
    rule_files: tuple[Path, ...],
    out: Path,
    name: str | None,
    version: str | None,
    scrub_words: tuple[str, ...],
    model_licences: tuple[str, ...],
    policy: Path | None,
    waivers: tuple[Path, ...],
    waiver_keys: tuple[Path, ...],
    scan_licences: bool,
    key: str,
    no_cache: bool,
    runner: str | None,
    jobs: int | None,
    broker: str | None,
    no_wait: bool,
    resume: str | None,
    as_json: bool,
) -> int:
    """Compile models for targets; write one signed bundle OUT/<model name> per model.

    A bundle is an OCI image layout that holds one payload per target. A cell (model x target) that fails leaves the
    others alone; its model gets no bundle. Models are scrubbed first: metadata, doc strings and names that are no
    interface reach no bundle.
    """
    from farm import build, config, runners, scheduler
    from farm import shapes as shape_texts
    from farm.licences.order import LicenceOrder
    from farm.rule_files import UserRules

    require_asked(models, targets, resume)
    if resume is not None and rule_files:
        why = "the build knows its rule files"
        raise FarmError(Code.USAGE, "--resume is given with --rules", why, "See `farm build --help`.")
    settings = config.load()
    order = build.Order(
        models,
        targets,
        shape_texts.parse(shapes),
        name=name,
        version=version,
        use_cache=not no_cache,
        workers=jobs or 0,
        scrub_words=(*settings.scrub_words, *scrub_words),
        licences=LicenceOrder.of(model_licences, policy, waivers, waiver_keys, scan=scan_licences),
        rules=UserRules.load(rule_files),
    )
    settings = replace(settings, broker=broker or settings.broker)
    if no_wait and settings.broker is None:
        advice = "Name a broker with --broker or FARM_BROKER_URL, or leave --no-wait out."
        raise FarmError(Code.USAGE, "--no-wait needs a broker", "without one nobody else would compile", advice)
    headline = ""
    if resume is None:  # which keeps the runner that it began with
        choice = runners.choose(settings.home, runner)
        order = replace(order, execution=choice.runner.execution())
        headline = choice.describe()
    number = None if resume is None else build_number(resume)
    with scheduler.session(settings) as farm:
        if number is not None:
            order, out, key = build.resumed(farm.ledger.builds.get(number))
        return carry_out(farm, order, out, key, resume=number, wait=not no_wait, as_json=as_json, headline=headline)


def carry_out(
    farm: Session,
    order: Order,
    out: Path,
    key: str,
    *,
    resume: int | None,
    wait: bool = True,
    as_json: bool,
    headline: str = "",
) -> int:
    """Build, show how it goes on and what came of it; the exit status."""
    from farm import build
    from farm.cli import progress
    from farm.outlook import Outlook

    look = Outlook(farm, build.slots(order)).look
    with progress.shown(quiet=as_json, look=look, headline=headline) as on_change:
        built = build.build(farm, order, out, key=key, on_change=on_change, resume=resume, wait=wait)
    if as_json:
        output.print_json(document(built))
        return int(built.status)
    click.echo(result_table(built))
    if not wait:
        click.echo(f"b{built.number} is with the workers; its bundles: farm build --resume b{built.number}")
    _explain(built, order)
    return int(built.status)


def require_asked(models: tuple[Path, ...], targets: tuple[str, ...], resume: str | None) -> None:
    """Either models and targets are given, or a build to resume; raises `FarmError` USAGE."""
    advice = "See `farm build --help`."
    if resume is not None:
        if models or targets:
            why = "the build knows its models and targets"
            raise FarmError(Code.USAGE, "--resume is given with models or targets", why, advice)
    elif not models or not targets:
        what = "no model is given" if not models else "no target is given"
        raise FarmError(Code.USAGE, what, "a build needs at least one model and one --target", advice)


def build_number(name: str) -> int:
    """The number in the name of a build; raises `FarmError` RUN_UNKNOWN."""
    kind, number = ids.parse(name)
    if kind != "b":
        raise FarmError(
            Code.RUN_UNKNOWN, f"{name} is a run", "only a build can be resumed", f"See `farm retry {name}`."
        )
    return number


def document(built: Built) -> dict[str, Any]:
    """The JSON document of a build, schema "build/1"."""
    return {
        "schema": "build/1",
        "id": f"b{built.number}",
        "status": int(built.status),
        "cells": [_cell(cell) for cell in built.cells],
        "rules": built.rules.to_json() if built.rules.files else None,
        "scrubbed": [taken.to_json() for taken in built.taken],
        "bundles": [
            {
                "path": str(bundle.path),
                "digest": bundle.digest,
                "reused": bundle.reused,
                "licences": bundle.licences,
                "payloads": dict(bundle.payloads),
            }
            for bundle in built.bundles
        ],
        "errors": [error.to_json() for error in built.errors],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    action = None if cell.job is None else cell.job.action
    return {
        "model": cell.model,
        "target": cell.target,
        "state": cell.state.value,
        "cached": cell.cached is not None,
        "recipe_key": None if action is None else action.recipe_key,
        "execution_key": None if action is None else action.execution_key,
        "runner": None if action is None else action.execution.runner,
        "image": None if action is None else action.execution.image,
        "payload": None if cell.payload is None else cell.payload.digest,
        "bytes": None if cell.payload is None else sum(entry.size for entry in cell.payload.files),
        "run": None if cell.run is None else f"r{cell.run.id}",
        "seconds": None if cell.run is None else cell.run.seconds,
        "error": None if cell.error is None else cell.error.to_json(),
    }


def result_table(built: Built) -> str:
    """The table of results: model, target, size, from the cache or compiled in how many seconds, payload."""
    rows = []
    for cell in built.cells:
        how = "cached" if cell.cached is not None else cell.state.value
        if cell.cached is None and cell.run is not None and cell.run.seconds is not None and cell.payload is not None:
            how = f"{cell.run.seconds:.1f} s"
        size = "-" if cell.payload is None else output.size(sum(entry.size for entry in cell.payload.files))
        digest = "-" if cell.payload is None else output.short(cell.payload.digest)
        rows.append([cell.model, cell.target, size, how, digest])
    return output.table(["model", "target", "size", "compiled", "payload"], rows)


def _explain(built: Built, order: Order) -> None:
    for taken in built.taken:
        for item in taken.renamed:
            click.echo(f"scrubbed {taken.model.name}: {item.describe()}", err=True)
    for resting in built.rules.resting:
        click.echo(resting.describe(), err=True)
    for bundle in built.bundles:
        click.echo(f"bundle {bundle.path} {bundle.digest}{' (unchanged)' if bundle.reused else ''}")
        if bundle.licences != "allow":
            click.echo(f"licences {bundle.licences} (farm licences {bundle.path})")
    for error in built.errors:
        output.show_error(error)
    failed = {cell.model: cell for cell in built.cells if cell.error is not None and cell.run is not None}
    for cell in failed.values():
        log = "" if cell.run is None else f" (log: farm logs r{cell.run.id})"
        click.echo(f"replay {cell.model} {cell.target}: {replay(order, cell)}{log}", err=True)


def replay(order: Order, cell: Cell) -> str:
    """The one command that compiles a cell again."""
    from farm.naming import name_models

    named = name_models(order.models, order.name, order.scrub_words)
    words = ["farm", "build", str(named[cell.model]), "-t", cell.target]
    for name, dims in order.options.shapes:
        words += ["--shape", (f"{name}=" if name else "") + "x".join(map(str, dims))]
    for path in order.rules.files:
        words += ["--rules", str(path)]
    words += ["--name", order.name] if order.name is not None else []
    words += ["--scrub-word", "..."] * bool(order.scrub_words)  # a log is no place for them
    words += ["--runner", order.execution.runner] if order.execution is not None else []
    return shlex.join([*words, "--jobs", "1", "--no-cache"])
