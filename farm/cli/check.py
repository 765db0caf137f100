"""`farm check`: does the compiled model answer what the reference runtime answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command
from farm.cli.parameters import TARGET
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.check import Report

EPILOG = """\b
Examples:
  farm check model.onnx -t x86-64-v3 --shape 1x3x48x192
  farm check bundles/model -t x86-64-v4 --input x=frame.npy
  farm check test_average_pool -t x86-64-v3      a folder in ONNX's test layout

Exit status: 0 within the tolerance (or this processor cannot run the target, which is said), 1 outside it."""


@click.command("check", cls=Command, epilog=EPILOG)
@click.argument("what", metavar="MODEL|FOLDER|BUNDLE", type=click.Path(path_type=Path))
@click.option("-t", "--target", type=TARGET, required=True, help="Compile and run for this target, or device:NAME.")
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]1x3x48x192", help="Shape of an input.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="Feed this file instead of seeded values."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the inputs.")
@click.option(
    "--inputs", "count", type=click.IntRange(1, 10_000), default=10, show_default=True, help="How many seeded cases."
)
@click.option("--model", type=click.Path(path_type=Path), help="The model of a BUNDLE, where the store lacks it.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(
    what: Path,
    target: str,
    shapes: tuple[str, ...],
    inputs: tuple[str, ...],
    seed: int,
    count: int,
    model: Path | None,
    as_json: bool,
) -> int:
    """Compile (cached), run natively, and compare with onnxruntime, or with the outputs that FOLDER holds.

    Every element must satisfy |a - b| <= 1e-4 + 1e-3 |b|, and none may be a NaN.
    """
    from farm import check, config
    from farm import shapes as shape_texts
    from farm.cli import progress

    question = check.Question(what, target, shape_texts.parse(shapes), named_files(inputs), seed, count, model)
    with progress.shown(quiet=as_json) as on_change:
        report = check.check(config.load(), question, on_change=on_change)
    if as_json:
        output.print_json(report.to_json())
    else:
        _print(report)
    if report.ran and not report.holds:
        output.show_error(report.error())
    return int(report.status)


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
        click.echo(f"not run: {report.name} for {report.target}: {report.reason}")
        return
    rows = [
        [found.output, "ok" if found.holds else "BAD", f"{found.max_abs_error:.3g}", str(case)]
        for case, found in report.worst
    ]
    click.echo(output.table(["output", "agrees", "max abs error", "worst case"], rows))
    verdict = "agrees with" if report.holds else "DISAGREES WITH"
    many = "1 case" if report.cases == 1 else f"{report.cases} cases"
    click.echo(f"{report.name} for {report.target} {verdict} {report.against} on {many}")
