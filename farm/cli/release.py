"""`farm release`: a version for a bundle, when it says the truth about what changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.config import Config
    from farm.release.release import Outcome, Past

EPILOG = """\b
Examples:
  farm rebuild bundles/model                     a second build: a release needs two that agree
  farm release bundles/model                     the version follows from what changed
  farm release bundles/model --pre rc --channel preview
  farm release bundles/model --bump major --against registry.example/media/model

\b
What is compared: tensor names, types and shapes, targets, CPU features, IR version, ABI, API and the expected
answers. A dropped target, another tensor or a higher demand is major; a new target or other answers minor; other
bytes behind the same interface patch. A lower bump is refused. It is compared with the last final release on record
here, or with --against: a repository takes only what was compared with its own last one.

\b
The channel "stable" demands every target of this farm, from a sandbox, allowed licences and a final version; "preview"
nothing of that, only that licences were judged and none is denied, and takes pre-releases alone: consumers who name no
version never get one. Channels of your own come from --channels FILE:
  schema = "release-channels/1"
  [channels.stable]
  targets = ["x86-64-v3", "aarch64"]             or ["all"]
  final = true                                   whether 1.2.0 may go there
  prerelease = false                             whether 1.2.0-rc.1 may
  builds = 2                                     agreeing builds of each payload
  apart = "worker"                               what differs between them: "worker" or "host"
  sealed = true                                  from a sandbox
  licences = true                                the licence verdict of every payload allows it
  licence_policies = ["sha256:..."]              whose verdicts count, by default those of this farm's own policy

Exit status: 0 released (or released already), 1 the bundle is bad, 3 something is missing here, 4 refused."""
_WORD = re.compile(r"[A-Za-z][0-9A-Za-z-]{0,31}")


@click.command("release", cls=Command, epilog=EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--bump",
    type=click.Choice(["auto", "major", "minor", "patch"]),
    default="auto",
    show_default=True,
    help="How much it changes; auto finds out.",
)
@click.option("--version", metavar="1.2.0", help="This very version, where it is high enough.")
@click.option("--pre", default="", metavar="WORD", help="A pre-release: rc gives 1.2.0-rc.1, then -rc.2.")
@click.option("--channel", default="stable", show_default=True, help="What is demanded of it.")
@click.option("--channels", type=click.Path(path_type=Path), help="A file of channels in place of those built in.")
@click.option(
    "--against",
    metavar="BUNDLE|REGISTRY/REPOSITORY",
    help="What was published: compare with the last release there, whatever this farm has on record.",
)
@click.option("--out", default="releases", show_default=True, type=click.Path(path_type=Path), help="Where it goes.")
@click.option("--key", default="default", show_default=True, help="Name of the signing key.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write the gates as JUnit XML too.")
@click.option("--sarif", type=click.Path(path_type=Path), help="Write what is refused as SARIF too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(
    bundle: Path,
    bump: str,
    version: str | None,
    pre: str,
    channel: str,
    channels: Path | None,
    against: str | None,
    out: Path,
    key: str,
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
) -> int:
    """Compare BUNDLE with the last release of its name, choose its version, and release it into DIR/NAME.

    Refused are: changed sources of the farm, fewer than two agreeing builds by different workers, a build that
    disagrees, a missing target of the channel, and a version that hides a change. Payloads stay what they are.
    """
    from farm import config
    from farm.release import channels as known
    from farm.release import release as releases
    from farm.release import reports, versions
    from farm.release.versions import Level

    if version is not None and (bump != "auto" or pre):
        raise FarmError(Code.USAGE, "--version goes without --bump and --pre", next_step="Give one or the other.")
    if pre and not _WORD.fullmatch(pre):
        why = "it must be a word of letters, digits and hyphens"
        raise FarmError(Code.USAGE, f"{pre!r} is not the word of a pre-release", why, "Write --pre rc.")
    settings = config.load()
    order = releases.Order(
        bundle,
        out,
        known.choose(channel, channels),
        None if bump == "auto" else Level[bump.upper()],
        None if version is None else versions.parse(version),
        pre,
        key,
    )
    past = releases.Past() if against is None else _past(settings, against, key)
    made = releases.release(settings, order, past)
    reports.write(made.report, "farm release", junit=junit, sarif=sarif)
    if as_json:
        output.print_json(made.to_json())
    else:
        _print(made)
    return int(made.report.status)


def _past(settings: Config, against: str, key: str) -> Past:
    from farm.registry import consumer, reference
    from farm.release import release as releases
    from signing import keys

    public = keys.load_public(keys.find(settings.home, key).public)
    if Path(against).is_dir():
        return releases.past_of_bundle(Path(against), public)
    return consumer.past_of(settings.home, reference.parse_repository(against), public)


def _print(made: Outcome) -> None:
    from farm.cli import checks

    checks.show(made.report)
    if not made.report.ok:
        click.echo(f"NOT RELEASED  {made.name}".rstrip())
    else:
        verb = "RELEASED BEFORE" if made.unchanged else "RELEASED"
        click.echo(f"{verb}  {made.name} {made.version}  {made.digest}\n{made.path}")
