"""`farm publish`: a release goes to a registry."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import output
from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm publish releases/model registry.example/media/model
  farm publish releases/model localhost:5000/model --json

\b
The bytes go first, then the entry of the signed release log, then the tag: the version. A tag never moves, and the
same release again is no fault: what an interrupted publish left out is pushed. Credentials are those of
`docker login`, or FARM_REGISTRY_USER and FARM_REGISTRY_PASSWORD for the registry FARM_REGISTRY_HOST; FARM_REGISTRY_CA
names a PEM file to trust.

Exit status: 0 published (or published already), 1 the bundle or the log is bad, 3 the registry cannot be used,
4 refused."""


@click.command("publish", cls=Command, epilog=EPILOG)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("repository", metavar="REGISTRY/REPOSITORY")
@click.option("--key", default="default", show_default=True, help="Name of the key that signs the log.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def command(bundle: Path, repository: str, key: str, as_json: bool) -> None:
    """Bring BUNDLE, a release, into an OCI registry with its attestations, under the tag of its version.

    Refused are: a bundle that was not released, or whose licences or builds do not hold today what its channel
    demanded; a version that is published with other content, withdrawn, not after all others, or not compared with
    the one before it there; and a repository whose log or tags somebody changed.
    """
    from farm import config
    from farm.registry import publishing, reference

    def say(line: str) -> None:
        if not as_json:
            click.echo(line, err=True)

    made = publishing.publish(config.load(), bundle, reference.parse_repository(repository), key=key, say=say)
    if as_json:
        output.print_json(made.to_json())
        return
    verb = "PUBLISHED BEFORE" if made.again else "PUBLISHED"
    release = f"{made.reference} for {output.plain(made.entry.channel)}"
    moved, present = made.pushed.moved, made.pushed.present
    click.echo(f"{verb}  {release}  {made.digest}\n{moved} pushed, {present} were there")
