"""`farm registry`: writes the configuration of the registry that carries blobs between hosts."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm registry --listen 192.0.2.1:5000 --storage /srv/farm-blobs
  docker-registry serve ~/.local/state/kernel-farm/gate/registry.yml"""


@click.command("registry", cls=Command, epilog=EPILOG)
@click.option("--listen", default="127.0.0.1:5000", show_default=True, metavar="ADDRESS:PORT", help="Where it listens.")
@click.option(
    "--storage", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder of its blobs."
)
def command(listen: str, storage: Path) -> None:
    """Write the configuration of the registry (Debian's docker-registry) that carries blobs between hosts.

    It answers only to holders of a certificate and of a token of this farm, both of which `farm serve` and enrolled
    workers have. Nothing that comes from it is believed before it was hashed.
    """
    from farm.gate import authority, registry
    from kernelfarm import paths

    keys = authority.ensure(paths.home())
    path = registry.write_config(keys, listen=listen, storage=storage)
    click.echo(f"{path}\nStart it with: docker-registry serve {path}")
