"""`farm explain`: groups, their rules and layouts, what was refused and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command
from farm.cli.parameters import TARGET, rules_option

if TYPE_CHECKING:
    from kernelc.explanation import Explanation, GroupStory, Memory

EPILOG = """\b
Examples:
  farm explain model.onnx -t x86-64-v3 --shape 1x3x48x192
  farm explain model.onnx -t x86-64-v3 --rules fusion.yaml --json
  farm explain model.onnx -t x86-64-v4 --shape 1x3x48x192 --measure

LAYOUT: NCHW (channels apart), NHWC (side by side) or NCHWc16 (blocks of 16), and zero columns left + right. MATCHES:
legal chains that a rule is the best one for; GROUPS: those of them that were chosen. KCYCLES: thousands of cycles by
the performance model; layouts are compared by predicted half cycles. PREDICTED: its microseconds at this core's clock;
RATIO: predicted by measured. OF PEAK: of the multiply-add peak of this core, probed beside. BOUND: what the model finds
to take most of the time.

\b
Exit status: 0 told, 1 a check failed and the measured figures are invalid, 3 this processor cannot run the target."""


@click.command("explain", cls=Command, epilog=EPILOG)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-t", "--target", type=TARGET, required=True, help="For this target, or device:NAME.")
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]1x3x48x192", help="Shape of an input.")
@rules_option("Fusion rules in YAML or JSON beside the farm's own; may be repeated.")
@click.option("--measure", is_flag=True, help="Compile, run on this processor and time each kernel in its place.")
@click.option("--rounds", type=click.IntRange(1, 10_000), default=40, show_default=True, help="Rounds of --measure.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(
    model: Path,
    target: str,
    shapes: tuple[str, ...],
    rule_files: tuple[Path, ...],
    measure: bool,
    rounds: int,
    as_json: bool,
) -> int:
    """Show how MODEL is fused, laid out and tiled for a target, by which rules, why not further, and what it will cost.

    Nothing is compiled without --measure. What is shown is what a build of the same model, shapes and rules does.
    """
    from farm import config, explain
    from farm import measure as measuring
    from farm import shapes as shape_texts
    from farm.cli import measured, progress
    from farm.rule_files import UserRules
    from kernelfarm import canonical
    from kernelfarm.errors import Status

    settings, options, rules = config.load(), shape_texts.parse(shapes), UserRules.load(rule_files)
    if measure:
        measuring.require_measurable(target)
    found, report = explain.explain(settings, model, target, options, rules), None
    if measure:
        question = measuring.Question(model, target, options, rules, rounds=rounds)
        with progress.shown(quiet=as_json) as on_change:
            report = measuring.measure(settings, question, found, on_change=on_change)
    if as_json:
        document = canonical.to_json(found)
        output.print_json(document if report is None else {**document, "measured": report.to_json()})
    else:
        click.echo(output.plain(as_text(found)))
        click.echo(output.plain(measured.predicted(found) if report is None else measured.measured(report)))
    if report is None or not report.faults:
        return int(Status.DONE)
    output.show_error(report.error())
    return int(report.status)


def as_text(found: Explanation) -> str:
    """The explanation for people: a table of groups, one of rules, a line for each refusal and each resting rule."""
    used = [one for one in found.rules if one.matches or not one.own]
    parts = [
        output.table(["group", "operations", "rule", "result", "layout"], [_row(group) for group in found.groups]),
        "",
        output.table(["rule", "matches", "groups"], [[one.name, str(one.matches), str(one.groups)] for one in used]),
        "",
    ]
    parts += [f"refused {one.node} ({one.op}) after {one.group}: {one.reason}" for one in found.refused]
    parts += [one.describe() for one in found.resting]
    parts.append(found.layouts.describe())
    parts += [
        f"cast of {one.value} from {one.before} to {one.after} ({one.bytes} bytes) for {', '.join(one.readers)}"
        for one in found.layouts.casts
    ]
    nodes = sum(len(group.nodes) for group in found.groups)
    groups = "1 group" if len(found.groups) == 1 else f"{len(found.groups)} groups"
    parts.append(f"{found.model} for {found.target}: {nodes} operations in {groups}")
    return "\n".join(parts)


def _row(group: GroupStory) -> list[str]:
    return [
        group.name,
        " + ".join(group.ops),
        group.rule or "-",
        "x".join(map(str, group.shape)),
        _layout(group.output, group.layout),
    ]


def _layout(value: str, found: Memory) -> str:
    halo = f", {found.left} + {found.right} columns" if found.left or found.right else ""
    return f"{found.layout}{halo}" + ("" if found.of == value else f", the memory of {found.of}")
