"""`farm check`: does the compiled model answer what the reference runtime answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli import output
from farm.cli.command import Command
from farm.cli.parameters import TARGET, rules_option
from kernelfarm.errors import Code, FarmError, Status

if TYPE_CHECKING:
    from farm.check import Report
    from farm.config import Config
    from farm.self_test import Tested

EPILOG = """\b
Examples:
  farm check model.onnx -t x86-64-v3 --shape 1x3x48x192
  farm check bundles/model                       every target of the bundle
  farm check bundles/model -t x86-64-v4 --input x=frame.npy
  farm check bundles/model -t aarch64 -t device:raspberry-pi-4
  farm check test_average_pool -t x86-64-v3      a folder in ONNX's test layout
  farm check bundles/model --self-test           its own golden vectors: nothing but the bundle is needed

Exit status: 0 within the tolerance, or not run (which is said with the reason); 1 outside it; 3 not run for want of an
emulator while CI=true is set."""


@click.command("check", cls=Command, epilog=EPILOG)
@click.argument("what", metavar="MODEL|FOLDER|BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "-t",
    "--target",
    "targets",
    type=TARGET,
    multiple=True,
    help="Compile and run for this target, or device:NAME; may be repeated. A BUNDLE's own targets otherwise.",
)
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]1x3x48x192", help="Shape of an input.")
@rules_option("Fusion rules in YAML or JSON beside the farm's own; may be repeated.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="Feed this file instead of seeded values."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the inputs.")
@click.option(
    "--inputs", "count", type=click.IntRange(1, 10_000), help="How many seeded cases; 10, or 1 in an emulator."
)
@click.option("--model", type=click.Path(path_type=Path), help="The model of a BUNDLE, where the store lacks it.")
@click.option(
    "--self-test", "self_test", is_flag=True, help="Run the golden vectors of a BUNDLE, and compare with nothing else."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(
    what: Path,
    targets: tuple[str, ...],
    shapes: tuple[str, ...],
    rule_files: tuple[Path, ...],
    inputs: tuple[str, ...],
    seed: int,
    count: int | None,
    model: Path | None,
    self_test: bool,
    as_json: bool,
) -> int:
    """Compile (cached), run natively or in qemu, and compare with onnxruntime, or with the outputs that FOLDER holds.

    Every element must satisfy |a - b| <= 1e-4 + 1e-3 |b|, and none may be a NaN. With --json and one target the report
    itself is printed, with several a document of schema "check-reports/1" that holds them by target.
    """
    from farm import check, config
    from farm import shapes as shape_texts
    from farm.cli import progress
    from farm.rule_files import UserRules

    settings = config.load()
    if self_test:
        if shapes or rule_files or inputs or count or model is not None:
            excluded = "--self-test goes without --shape, --rules, --input, --inputs and --model"
            raise FarmError(Code.USAGE, excluded, "golden vectors have inputs of their own", "Leave them out.")
        return _self_test(settings, what, targets, as_json=as_json)
    options, files, rules = shape_texts.parse(shapes), named_files(inputs), UserRules.load(rule_files)
    found: dict[str, Report | FarmError] = {}
    known: check.Answers = {}
    wanted = tuple(dict.fromkeys(targets or check.targets_of(what)))
    for target in wanted:
        question = check.Question(what, target, options, files, seed, count, model, rules)
        try:
            with progress.shown(quiet=as_json) as on_change:
                found[target] = check.check(settings, question, known=known, on_change=on_change)
        except FarmError as error:
            if len(wanted) == 1:
                raise
            found[target] = error
    if as_json:
        output.print_json(document(found, settings))
    for outcome in found.values():
        _show(outcome, quiet=as_json)
    return int(worst(found, settings))


def _self_test(settings: Config, what: Path, wanted: tuple[str, ...], *, as_json: bool) -> int:
    from farm import check, self_test

    found: dict[str, Tested | FarmError] = {}
    for target in dict.fromkeys(wanted or check.targets_of(what)):
        try:
            found[target] = self_test.test(settings, what, target)
        except FarmError as error:
            if error.code is not Code.DEVICE_RUN_FAILED:
                raise
            found[target] = error
    status = worst(found, settings)
    if as_json:
        told = {
            name: {"error": one.to_json()} if isinstance(one, FarmError) else one.to_json()
            for name, one in found.items()
        }
        output.print_json({"schema": "self-tests/1", "status": int(status), "targets": told})
    for target, one in found.items():
        if isinstance(one, FarmError):
            output.show_error(one)
        elif not as_json:
            lines = [f"not run: {one.reason}"] if one.reason else list(one.said)
            click.echo("\n".join(f"{target}: {output.plain(line)}" for line in lines))
    return int(status)


def worst(found: Mapping[str, Report | Tested | FarmError], settings: Config) -> Status:
    """The exit status of all together: the lowest that is not 0, so that what is bad outweighs what was not run."""
    statuses = {
        outcome.status if isinstance(outcome, FarmError) else outcome.status_for(settings) for outcome in found.values()
    }
    return min(statuses - {Status.DONE}, default=Status.DONE)


def document(found: Mapping[str, Report | FarmError], settings: Config) -> dict[str, Any]:
    """The report of the only target, or what came of several by target: a report, or {"error": ...}."""
    by_target = {
        name: {"error": outcome.to_json()} if isinstance(outcome, FarmError) else outcome.to_json()
        for name, outcome in found.items()
    }
    if len(by_target) == 1:
        return next(iter(by_target.values()))
    return {"schema": "check-reports/1", "status": int(worst(found, settings)), "targets": by_target}


def _show(outcome: Report | FarmError, *, quiet: bool) -> None:
    if isinstance(outcome, FarmError):
        output.show_error(outcome)
        return
    if not quiet:
        _print(outcome)
    if outcome.ran and not outcome.holds:
        output.show_error(outcome.error())


def named_files(texts: tuple[str, ...]) -> dict[str, Path]:
    """Files by input from texts like "x=frame.npy"; raises `FarmError` USAGE."""
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, file = text.rpartition("=")
        if not equals or not name or not file or name in found:
            why = f"{name!r} is given twice" if name in found else "it must be NAME=FILE.npy"
            raise FarmError(Code.USAGE, f"{text!r} is not an input", why, "`farm check --help` shows an example.")
        found[name] = Path(file)
    return found


def _print(report: Report) -> None:
    if not report.ran:
        click.echo(f"{report.name} for {report.target}: not run: {report.reason}")
        return
    rows = [
        [found.output, "ok" if found.holds else "BAD", f"{found.max_abs_error:.3g}", str(case)]
        for case, found in report.worst
    ]
    click.echo(output.table(["output", "agrees", "max abs error", "worst case"], rows))
    verdict = "agrees with" if report.holds else "DISAGREES WITH"
    many = "1 case" if report.cases == 1 else f"{report.cases} cases"
    how = "" if report.how == "native" else f", run by {report.how}"
    click.echo(f"{report.name} for {report.target} {verdict} {report.against} on {many}{how}")
