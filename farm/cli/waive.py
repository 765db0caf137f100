"""`farm waive`: accept a finding of the licence gate, signed and for a time."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import output
from farm.cli.command import Command
from kernelfarm.errors import Code, FarmError

EPILOG = """\b
Examples:
  farm waive bundles/model 3fa2c81d --reason "GPL2 is a macro's name" --expires 2027-03-31
  farm waive bundles/model 3fa2c81d --reason "..." --expires 2027-03-31 --key counsel --out waiver.json
  farm waive bundles/model 3fa2c81d --reason "..." --expires 2027-03-31 --signed-by release.pub

Without --out it lies in the farm's state, where every build finds it. It covers this finding and no other: once the
version, a file, its licence or the rule changes, it covers nothing."""


@click.command("waive", cls=Command, epilog=EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("finding")
@click.option("--reason", required=True, help="Why the finding is acceptable.")
@click.option("--expires", required=True, metavar="YYYY-MM-DD", help="First day (UTC) on which it counts no more.")
@click.option("--key", default="default", show_default=True, help="Name of the key that signs the waiver.")
@click.option(
    "--signed-by", type=click.Path(path_type=Path), help="Public key that signed BUNDLE; else that of this farm's key."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write it to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    bundle: Path,
    finding: str,
    reason: str,
    expires: str,
    key: str,
    signed_by: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Sign a waiver of FINDING, the first digits of a finding that `farm licences BUNDLE` lists.

    What it says of the finding is taken from BUNDLE, whose signatures are checked.
    """
    from farm.licences import gate, judging, waivers
    from kernelfarm import canonical, digest, files, paths
    from signing import client, keys
    from signing.waiver import Waiver

    home = paths.home().create()
    public = keys.load_public(keys.find(home).public if signed_by is None else signed_by)
    found = judging.finding(judging.read(bundle, public), finding)
    if found.rule == "unscanned":
        why = "nobody looked at the files yet"
        raise FarmError(Code.USAGE, "what was not scanned cannot be waived", why, found.remedy)
    made = Waiver(
        finding=found.key,
        material=found.material,
        file=found.file,
        expression=found.expression,
        rule=found.rule,
        reason=reason,
        granted=gate.today(),
        expires=expires,
    )
    with client.open_signer(home, key) as signer:
        data = signer.waive(made.statement())
    place = out or home.root / waivers.FOLDER / f"{digest.hex_of(found.key)[:16]}.json"
    with files.coded("the waiver could not be written", place):
        place.parent.mkdir(parents=True, exist_ok=True)
    files.atomic_write(place, data)
    if as_json:
        output.print_json({"file": str(place), "digest": digest.of_bytes(data), **canonical.to_json(made)})
        return
    click.echo(f"waived {' '.join(filter(None, [made.material, made.file]))} until {expires}: {place}")
