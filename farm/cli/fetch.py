"""`farm fetch`: what a lock file names, verified."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import output
from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm fetch farm.lock --key release.pub
  farm fetch farm.lock --key release.pub --out bundles --offline
  farm fetch farm.lock --key release.pub --mirror mirror.example:5000

A fetch that was interrupted goes on where it stopped, and a damaged bundle is fetched again; a file of your own in its
folder is never removed. With --offline what lies in the folder is verified, and nothing is asked of the network.

Exit status: 0 all there and verified, 1 something is bad, 2 wrong usage or a file of your own in the way, 3 not here or
not reachable, 4 withdrawn or denied."""


@click.command("fetch", cls=Command, epilog=EPILOG)
@click.argument("lockfile", default="farm.lock", type=click.Path(path_type=Path))
@click.option("--key", required=True, type=click.Path(path_type=Path), help="The public key of who released them.")
@click.option("--out", default="bundles", show_default=True, type=click.Path(path_type=Path), help="Folder of bundles.")
@click.option("--offline", is_flag=True, help="Ask nothing of the network: verify what is there.")
@click.option(
    "--mirror", default="", metavar="HOST[:PORT][/PREFIX]", help="Ask this registry in place of those locked."
)
@click.option("--withdrawn", is_flag=True, help="Take releases that were withdrawn since.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(lockfile: Path, key: Path, out: Path, offline: bool, mirror: str, withdrawn: bool, as_json: bool) -> None:
    """Have every bundle of LOCKFILE in DIR/NAME, by digest alone, and verify it with the key."""
    from farm.registry import consumer
    from farm.registry import lockfile as lockfiles
    from kernelfarm import paths
    from signing import keys

    found = consumer.fetch(
        paths.home(),
        lockfiles.read(lockfile),
        keys.load_public(key),
        out,
        offline=offline,
        withdrawn_too=withdrawn,
        mirror=mirror,
    )
    if as_json:
        output.print_json({"schema": "fetched/1", "bundles": [item.to_json() for item in found]})
        return
    for item in found:
        verb = "VERIFIED" if item.present else "FETCHED"
        click.echo(f"{verb}  {item.name} {item.version} for {output.plain(item.channel)}  {item.digest}  {item.path}")
