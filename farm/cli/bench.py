"""`farm bench`: how fast the compiled model is beside other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command
from farm.cli.parameters import TARGET, rules_option

if TYPE_CHECKING:
    from farm.bench import Report

EPILOG = """\b
Examples:
  farm bench model.onnx -t x86-64-v4 --shape 1x3x48x192

Exit status: 0 measured, 1 a check failed and the figures are invalid, 3 this processor cannot run the target."""


@click.command("bench", cls=Command, epilog=EPILOG)
@click.argument("what", metavar="MODEL|BUNDLE", type=click.Path(path_type=Path))
@click.option("-t", "--target", type=TARGET, required=True, help="Compile and run for this target, or device:NAME.")
@click.option("--against", default="onnxruntime", show_default=True, help="Peers, separated by commas.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each side.")
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]1x3x48x192", help="Shape of an input.")
@rules_option("Fusion rules in YAML or JSON beside the farm's own; may be repeated.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the input.")
@click.option(
    "--rounds", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Turns of ours, peer, peer, ours."
)
@click.option("--model", type=click.Path(path_type=Path), help="The model of a BUNDLE, where the store lacks it.")
@click.option("--json", "as_json", is_flag=True, help='Print a JSON document; "ratio_best" is ours by the best peer.')
def command(
    what: Path,
    target: str,
    against: str,
    threads: int,
    shapes: tuple[str, ...],
    rule_files: tuple[Path, ...],
    seed: int,
    rounds: int,
    model: Path | None,
    as_json: bool,
) -> int:
    """Measure both sides in one process on pinned cores, one per thread, best of all rounds.

    One thread is measured by its CPU time, several by real time; what they all spend stands beside it. No figure counts
    unless the outputs agree and no side is above the peak of these cores, which is measured beside them.
    """
    from farm import bench, config
    from farm import shapes as shape_texts
    from farm.cli import progress
    from farm.rule_files import UserRules

    peers = tuple(name.strip() for name in against.split(",") if name.strip())
    options, rules = shape_texts.parse(shapes), UserRules.load(rule_files)
    question = bench.Question(what, target, options, peers, threads, seed, rounds, model, rules)
    with progress.shown(quiet=as_json) as on_change:
        report = bench.bench(config.load(), question, on_change=on_change)
    if as_json:
        output.print_json(report.to_json())
    else:
        _print(report)
    if report.faults:
        output.show_error(report.error())
    return int(report.status)


def _print(report: Report) -> None:
    rows = [
        [
            side.name,
            f"{side.milliseconds:.3f}",
            f"{side.cpu_milliseconds:.3f}",
            f"{side.gflops:.1f}",
            f"{100 * side.share_of_peak:.0f} %",
        ]
        for side in (report.ours, *report.peers)
    ]
    click.echo(output.table(["side", "ms", "CPU ms", "GF/s", "of peak"], rows))
    click.echo(
        f"{report.model} for {report.target}: {report.ratio_best:.2f} of the best peer's time "
        f"(peak {report.peak_gflops:.1f} GF/s, max abs error {report.max_abs_error:.3g})"
    )
