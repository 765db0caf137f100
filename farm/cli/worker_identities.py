"""`farm worker enrol | list | revoke`: who may work for this farm from another host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command

if TYPE_CHECKING:
    from farm.gate.identities import Identities, Identity


@click.command("enrol", cls=Command)
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The ticket to write; bring it to the host by a way that nobody else can read.",
)
@click.option("--force", is_flag=True, help="A new ticket for a worker that is enrolled or revoked.")
@click.option(
    "--hours", type=click.IntRange(1, 720), default=24, show_default=True, help="How long the ticket is good for."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def enrol(name: str, out: Path, force: bool, hours: int, as_json: bool) -> None:
    """Let a worker on another host take runs through `farm serve`.

    The ticket is good once: `farm worker` on that host trades it for a certificate of a key that it makes itself.
    """
    from farm.gate import authority
    from farm.gate.identities import Identities
    from kernelfarm import files, paths
    from kernelfarm.errors import Code, FarmError

    if out.exists() and not force:
        raise FarmError(
            Code.IDENTITY_EXISTS, f"{out} exists already", "an identity is not written over", "Use --force."
        )
    if not out.absolute().parent.is_dir():
        raise FarmError(Code.FILE_MISSING, f"the folder of {out} does not exist", next_step="Make it first.")
    made, secret = Identities(authority.ensure(paths.home())).enrol(name, force=force, hours=hours)
    files.atomic_write(out, secret, mode=0o600)
    if as_json:
        output.print_json(_document(made))
        return
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made.expires_at))
    click.echo(f"{name} may join until {until}, once: farm worker --gate https://... --identity {out.name}")


@click.command("list", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def list_(as_json: bool) -> None:
    """Show the workers that are enrolled, and those that are revoked."""
    from farm.gate import authority
    from farm.gate.identities import Identities
    from kernelfarm import paths

    records = Identities(authority.of(paths.home()))
    found = records.all()
    if as_json:
        output.print_json({"workers": [_document(each) for each in found]})
        return
    rows = [
        (each.name, _state(records, each), _day(each.enrolled_at), _day(each.expires_at), each.fingerprint[:16])
        for each in found
    ]
    click.echo(output.table(("name", "state", "enrolled", "expires", "certificate"), rows))


@click.command("revoke", cls=Command)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def revoke(name: str, as_json: bool) -> None:
    """Refuse a worker from its next request on. What it has in hand goes to another once its lease is over."""
    from farm.gate import authority
    from farm.gate.identities import Identities
    from kernelfarm import paths

    found = Identities(authority.of(paths.home())).revoke(name)
    if as_json:
        output.print_json(_document(found))
        return
    click.echo(f"{name} is revoked")


COMMANDS = (enrol, list_, revoke)
"""The commands that `farm worker` takes over."""


def _state(records: Identities, each: Identity) -> str:
    state = each.state(time.time())
    return "invited" if state == "good" and records.is_invited(each) else state


def _document(found: object) -> object:
    from kernelfarm import canonical

    return canonical.to_json(found)


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))
