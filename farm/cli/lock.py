"""`farm lock`: a consumer's lock file."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import output
from farm.cli.command import Command
from kernelfarm import canonical, files

EPILOG = """\b
Examples:
  farm lock registry.example/media/model:1.2.0 --key release.pub
  farm lock registry.example/media/a registry.example/media/b --key release.pub -o farm.lock

Without a version the last final release that is not withdrawn is taken. Keep the file under version control: what it
saw of a release log, a newer one must have seen too."""


@click.command("lock", cls=Command, epilog=EPILOG)
@click.argument("references", nargs=-1, required=True, metavar="REGISTRY/REPOSITORY[:VERSION]...")
@click.option("--key", required=True, type=click.Path(path_type=Path), help="The public key of who released them.")
@click.option("-o", "--output", "path", default="farm.lock", show_default=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the lock file too.")
def command(references: tuple[str, ...], key: Path, path: Path, as_json: bool) -> None:
    """Write down what references mean now: digests, payloads, and the end of each release log."""
    from farm.registry import consumer, lockfile, reference
    from kernelfarm import paths
    from signing import keys

    places = [reference.parse(text) for text in references]
    before = lockfile.read(path) if path.exists() else None
    made = consumer.lock(paths.home(), places, keys.load_public(key), before=before)
    value = canonical.to_json(made)
    files.atomic_write(path, output.json_text(value).encode() + b"\n")
    if as_json:
        output.print_json(value)
        return
    for item in made.bundles:
        click.echo(f"{item.name} {item.version} for {output.plain(item.channel)}  {item.digest}")
    click.echo(f"{path}\nFetch them with: farm fetch {path} --key {key}")
