"""`farm serve`: the gate for workers on other hosts, in the foreground."""

from __future__ import annotations

import click

from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm serve --listen 192.0.2.1:8443 --registry https://192.0.2.1:5000
  farm worker enrol builder-7 --out builder-7.pem"""


@click.command("serve", cls=Command, epilog=EPILOG)
@click.option(
    "--listen",
    default="127.0.0.1:8443",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where workers reach the gate; port 0 is any free one.",
)
@click.option(
    "--registry",
    required=True,
    envvar="FARM_REGISTRY",
    metavar="URL",
    help="The registry that carries the blobs (see `farm registry`), as the workers reach it; also FARM_REGISTRY.",
)
def command(listen: str, registry: str) -> None:
    """Let enrolled workers on other hosts take runs and bring results.

    A worker shows the certificate that `farm worker enrol` gave it. It sees no ledger, no key and no disk of this
    machine; what it brings counts once the gate has fetched and hashed every byte.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{listen!r} is not ADDRESS:PORT", param_hint="--listen")
    from farm import config
    from farm.gate import authority, server
    from farm.gate import registry as blob_registry
    from farm.gate.desk import Desk
    from farm.ledger.ledger import opened
    from kernelfarm import files
    from kernelfarm.store import ContentStore

    settings = config.load()
    home = settings.home.create()
    files.sweep(home.cache)
    keys = authority.ensure(home)
    peer = blob_registry.peer(keys, registry)
    with opened(settings.ledger) as ledger:
        desk = Desk(settings, ledger, ContentStore(home.store), keys, peer)
        server.serve(desk, peer.url, server.Address(host.strip("[]"), int(port)), _ready)


def _ready(address: object) -> None:
    from farm.gate.server import Address

    assert isinstance(address, Address)
    host = f"[{address.host}]" if ":" in address.host else address.host
    click.echo(f"gate: listening at https://{host}:{address.port}")
