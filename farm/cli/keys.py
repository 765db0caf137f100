"""`farm keys`: make, list and export signing keys."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import output
from farm.cli.command import Group

EPILOG = """\b
Examples:
  farm keys new
  farm keys list
  farm keys export --out release.pub"""
NEW = """\b
Examples:
  farm keys new
  farm keys new --name release --json"""
LIST = """\b
Examples:
  farm keys list
  farm keys list --json"""
EXPORT = """\b
Examples:
  farm keys export > release.pub
  farm keys export --name release --out release.pub"""


@click.group("keys", cls=Group, epilog=EPILOG)
def command() -> None:
    """Make, list and export signing keys.

    A key is a pair of files under the farm's state folder: NAME.key, for the signer alone (mode 0600), and NAME.pub,
    which `farm verify --key` takes.
    """


@command.command(epilog=NEW)
@click.option("--name", default="default", show_default=True, help="Name of the key.")
@click.option("--force", is_flag=True, help="Replace an existing key; the old one is gone for good.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def new(name: str, force: bool, as_json: bool) -> None:
    """Make a key pair (ECDSA P-256)."""
    from kernelfarm import paths
    from signing import keys

    home = paths.home()
    public = keys.new(home, name, force=force)
    pair = keys.pair(home, name)
    if as_json:
        output.print_json(
            {"name": name, "keyid": public.keyid, "public": str(pair.public), "private": str(pair.private)}
        )
        return
    click.echo(f"made the key {name}\n  keyid    {public.keyid}\n  public   {pair.public}\n  private  {pair.private}")


@command.command(name="list", epilog=LIST)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def list_keys(as_json: bool) -> None:
    """List the keys of this farm."""
    from kernelfarm import paths
    from signing import keys

    home = paths.home()
    found = [(name, keys.load_public(keys.pair(home, name).public)) for name in keys.names(home)]
    if as_json:
        output.print_json({"keys": [{"name": name, "keyid": public.keyid} for name, public in found]})
        return
    click.echo(output.table(["name", "keyid"], [[name, public.keyid] for name, public in found]))


@command.command(epilog=EXPORT)
@click.option("--name", default="default", show_default=True, help="Name of the key.")
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
def export(name: str, out: Path | None) -> None:
    """Print the public key of NAME, for whoever verifies."""
    from kernelfarm import files, paths
    from signing import keys

    public = keys.load_public(keys.find(paths.home(), name).public)
    if out is None:
        click.echo(public.pem, nl=False)
    else:
        files.atomic_write(out, public.pem.encode())
