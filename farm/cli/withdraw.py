"""`farm withdraw`: nobody should take this release any more."""

from __future__ import annotations

import click

from farm.cli import output
from farm.cli.command import Command
from kernelfarm import canonical

EPILOG = """\b
Examples:
  farm withdraw registry.example/media/model:1.2.0 --reason "wrong colours on odd widths" --redirect 1.2.1

\b
The withdrawal is an entry of the signed release log. Bytes and tag stay where they are: who has the release can still
verify what it was, and `farm verify`, `farm lock` and `farm fetch` refuse it with the reason and the redirect."""


@click.command("withdraw", cls=Command, epilog=EPILOG)
@click.argument("reference", metavar="REGISTRY/REPOSITORY:VERSION")
@click.option("--reason", required=True, help="Why, in a line: everybody reads it.")
@click.option("--redirect", default="", metavar="VERSION", help="The version to take instead.")
@click.option("--key", default="default", show_default=True, help="Name of the key that signs the log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(reference: str, reason: str, redirect: str, key: str, as_json: bool) -> None:
    """Withdraw a published release, signed and logged."""
    from farm import config
    from farm.registry import publishing
    from farm.registry import reference as references

    place = references.parse_release(reference)
    entry = publishing.withdraw(config.load(), place, reason=reason, redirect=redirect, key=key)
    if as_json:
        output.print_json(canonical.to_json(entry))
        return
    instead = f", take {entry.redirect} instead" if entry.redirect else ""
    why = f"by entry {entry.sequence}: {output.plain(entry.reason)}{instead}"
    click.echo(f"WITHDRAWN  {place.place}:{entry.tag} for {output.plain(entry.channel)}  {why}")
