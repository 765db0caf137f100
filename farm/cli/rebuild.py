"""`farm rebuild`: are the bytes of a bundle what its provenance gives, wherever it is compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command
from farm.cli.parameters import RUNNER, TARGET, rules_option

if TYPE_CHECKING:
    from containers.runner import Progress
    from farm.rebuild import Rebuilt, Report

EPILOG = """\b
What --vary names: dir (another folder, with spaces and letters beyond ASCII), tz, umask, locale, home, hashseed,
hostname, core (one core, one job), order (folders listed backwards), cpu (masked CPU features); all.

\b
Examples:
  farm rebuild bundles/model --vary all
  farm rebuild bundles/model -t x86-64-v3 --vary tz,locale --json

Exit status: 0 the same bytes, 1 they differ (each file with its first differing byte)."""


@click.command("rebuild", cls=Command, epilog=EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "-t", "--target", "targets", type=TARGET, multiple=True, help="Rebuild this target only; may be repeated."
)
@click.option(
    "--vary", default="dir", show_default=True, metavar="all|WORD,...", help="What differs from the first build."
)
@click.option("--runner", type=RUNNER, help="Where compiles run: auto, docker, bubblewrap or process.")
@click.option("--model", type=click.Path(path_type=Path), help="The model's file, where the store lacks it.")
@rules_option("The rule files of the build, where the store lacks its rules; may be repeated.")
@click.option("--key", default="default", show_default=True, help="Name of the key that signs the comparisons.")
@click.option(
    "--recorded", is_flag=True, help="Compile nothing: show the comparisons on record that varied at least this."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(
    bundle: Path,
    targets: tuple[str, ...],
    vary: str,
    runner: str | None,
    model: Path | None,
    rule_files: tuple[Path, ...],
    key: str,
    recorded: bool,
    as_json: bool,
) -> int:
    """Compile BUNDLE again from its provenance, with no cache and in other surroundings, and compare every byte.

    A comparison is recorded for each payload, and signed and added to BUNDLE where the same key signed that; its digest
    does not change by it.
    """
    from farm import config, rebuild, runners, surroundings
    from farm.rule_files import UserRules

    settings = config.load()
    chosen = runners.choose(settings.home, runner).runner
    rules = UserRules.load(rule_files)
    question = rebuild.Question(bundle, surroundings.parse(vary), targets, model, key, rules, chosen)
    if recorded:
        report = rebuild.on_record(settings, question)
    else:
        report = rebuild.rebuild(settings, question, on_progress=_progress(quiet=as_json))
    if as_json:
        output.print_json(report.to_json())
    else:
        _print(report)
    if report.rebuilt and not report.same:
        output.show_error(report.error())
    return int(report.status)


def _progress(*, quiet: bool) -> Callable[[str, Progress], None]:
    """A line on standard error when a compile begins its next stage."""
    said: set[tuple[str, str]] = set()

    def tell(target: str, progress: Progress) -> None:
        if not quiet and (target, progress.stage) not in said:
            said.add((target, progress.stage))
            click.echo(f"{target}: {progress.stage}", err=True, color=sys.stderr.isatty())

    return tell


def _print(report: Report) -> None:
    if not report.rebuilt:
        click.echo("no such comparison is on record")
        return
    click.echo(output.table(["model", "target", "payload", "rebuilt", "varied"], [_row(one) for one in report.rebuilt]))
    if report.unattested:
        click.echo(f"recorded, but not added to the bundle: {report.unattested}")
    for one in report.rebuilt:
        for reason in one.unvaried:
            click.echo(f"not varied for {one.target}: {reason}")
        for item in one.differences:
            click.echo(f"{one.target}: {item.describe()}")


def _row(one: Rebuilt) -> list[str]:
    found = one.comparison
    verdict = "same" if found.same else f"DIFFERS {output.short(found.rebuilt)}"
    return [one.model, one.target, output.short(found.original), verdict, ",".join(found.varied) or "nothing"]
