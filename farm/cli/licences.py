"""`farm licences`: may a bundle be shipped, as far as licences go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli import output
from farm.cli.command import Command
from farm.cli.licence_options import licence_options
from kernelfarm.errors import Code, FarmError, Status

if TYPE_CHECKING:
    from farm.licences.judging import Recorded
    from sbom.licence.nouns import Verdict

EPILOG = """\b
Examples:
  farm licences bundles/model
  farm licences bundles/model --key release.pub --json
  farm licences bundles/model --scan --model-licence Apache-2.0

\b
A policy of your own is a TOML file with a table for each role: linked (runs on the device), imported (a library in the
compiler's process), tool (another program of the image), model. `*` matches any text, an exact name beats a pattern,
what nothing matches wants a review:
  schema = "licence-policy/1"
  [linked]
  allow = ["Apache-2.0", "MIT", "GPL-3.0-or-later WITH GCC-exception-3.1"]
  review = ["MPL-*"]
  deny = ["GPL-*"]

Exit status: 0 allowed, 3 the scanner is not installed, 4 denied, or somebody has to look."""


@click.command("licences", cls=Command, epilog=EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="The public key that must have signed it.")
@click.option(
    "--scan", is_flag=True, help="Scan what nobody scanned yet, judge again and sign the verdicts into BUNDLE."
)
@click.option("--again", is_flag=True, help="As --scan, but scan nothing: recorded scans count.")
@licence_options
@click.option("--timeout", type=click.IntRange(1, 3600), default=300, show_default=True, help="Seconds for a file.")
@click.option("--sign", default="default", show_default=True, help="Name of the key that signs new verdicts.")
@click.option("--all", "everything", is_flag=True, help="Also list what is allowed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    bundle: Path,
    key: Path | None,
    scan: bool,
    again: bool,
    model_licences: tuple[str, ...],
    policy: Path | None,
    waivers: tuple[Path, ...],
    waiver_keys: tuple[Path, ...],
    timeout: int,
    sign: str,
    everything: bool,
    as_json: bool,
) -> int:
    """Show under which licences BUNDLE ships: what the gate found in sources, objects, files, model and packages.

    Verdicts are signed statements in the bundle. They hold no time: waivers in them count until they expire.
    """
    from farm.licences import gate, judging
    from signing import keys

    public = None if key is None else keys.load_public(key)
    asked = bool(model_licences or policy or waivers)
    if asked and not (scan or again):
        what = "--model-licence, --licence-policy and --waiver judge again"
        raise FarmError(Code.USAGE, what, "without --scan or --again only recorded verdicts are shown", "Add one.")
    recorded = judging.read(bundle, public)
    if scan or again:
        from farm.licences.order import LicenceOrder

        order = LicenceOrder.of(model_licences, policy, waivers, waiver_keys, scan=scan)
        recorded = _judged(bundle, recorded, order, sign, timeout)
    day = gate.today()
    if as_json:
        output.print_json(_document(recorded, day))
    else:
        _print(recorded, day, everything=everything)
    allowed = all(found is not None and found.on(day).value == "allow" for found in recorded.verdicts.values())
    return int(Status.DONE if allowed else Status.REFUSED)


def _judged(bundle: Path, recorded: Recorded, order: Any, sign: str, timeout: int) -> Recorded:
    from farm.licences import judging
    from kernelfarm import paths
    from kernelfarm.store import ContentStore
    from signing import client

    home = paths.home().create()
    terms = order.terms(home, sign, file_s=float(timeout))
    made = judging.judge(recorded, terms, home, ContentStore(home.store))
    with client.open_signer(home, sign) as signer:
        judging.record(bundle, made, signer)
        return judging.read(bundle, signer.public)


def _document(recorded: Recorded, day: str) -> Mapping[str, Any]:
    from kernelfarm import canonical

    targets = {
        target: None
        if found is None
        else {
            "on": found.on(day).value,
            "open": [item.key for item in found.open_findings(day)],
            **canonical.to_json(found),
        }
        for target, found in recorded.verdicts.items()
    }
    return {
        "schema": "licences/1",
        "digest": recorded.view.digest,
        "day": day,
        "signature": "verified" if recorded.signed else "not checked",
        "targets": targets,
    }


def _print(recorded: Recorded, day: str, *, everything: bool) -> None:
    for target, found in recorded.verdicts.items():
        if found is None:
            click.echo(f"{target}: nobody judged it (farm licences BUNDLE --scan)")
            continue
        until = f" until {found.expires}" if found.expires and day < found.expires else ""
        scanner = "not scanned" if found.scanner is None else f"{found.scanner.name} {found.scanner.version}"
        click.echo(f"{target}: {found.on(day).value}{until}  ({len(found.materials)} materials, {scanner})")
        if everything:
            _list(found)
        for item in found.open_findings(day):
            place = " ".join(filter(None, [item.material, item.file]))
            click.echo(f"  {item.decision.value}  {output.short(item.key)}  {place} ({item.role.value})")
            click.echo(f"    rule: {output.plain(item.rule)}\n    why:  {output.plain(item.reason)}")
            click.echo(f"    next: {output.plain(item.remedy)}")
        for waiver in found.waivers:
            state = "covers" if day < waiver.expires else "EXPIRED, covered"
            what = output.short(waiver.finding)
            click.echo(
                f"  waiver {state} {what} until {waiver.expires}: {output.plain(waiver.reason)}  ({waiver.keyid})"
            )
    if not recorded.signed:
        click.echo(output.style("SIGNATURES WERE NOT CHECKED: give --key NAME.pub.", "yellow"))


def _list(found: Verdict) -> None:
    rows = [
        [item.role.value, f"{item.name} {item.version}".strip(), item.concluded or "unknown", str(item.files)]
        for item in found.materials
    ]
    table = output.table(["role", "material", "licence", "files"], rows)
    click.echo("\n".join(f"  {line}" for line in output.plain(table).split("\n")))
