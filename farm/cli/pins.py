"""`farm pins`: the lock of the packages that the compile image is built from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Group
from farm.cli.working import working
from kernelfarm.errors import Status

if TYPE_CHECKING:
    from containers.image.update import Finding

EPILOG = """\b
Examples:
  farm pins check
  farm pins update"""
CHECK = """\b
Examples:
  farm pins check
  farm pins check --json

Exit status 1 when a pin is neither served nor in the content store: the image could not be built here."""
UPDATE = """\b
Examples:
  farm pins update
  farm pins update --out pins.toml"""


@click.group("pins", cls=Group, epilog=EPILOG)
def command() -> None:
    """Check and update the lock of the compile image: Debian packages and wheels by name, version and SHA-256."""


@command.command(epilog=CHECK)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(as_json: bool) -> int:
    """Ask apt and pip which pins are still served and what is newest; downloads no package."""
    from containers.image import pins, update
    from kernelfarm import paths
    from kernelfarm.store import ContentStore

    with working("asking", quiet=as_json) as tell:
        found = update.check(pins.load(), ContentStore(paths.home().store), tell)
    lost = any(not item.served and not item.held for item in found)
    status = Status.BAD if lost else Status.DONE
    if as_json:
        entries = [
            {
                "kind": item.pin.kind,
                "name": item.pin.name,
                "version": item.pin.version,
                "newest": item.newest,
                "served": item.served,
                "held": item.held,
            }
            for item in found
        ]
        output.print_json({"schema": "pins-check/1", "status": int(status), "pins": entries})
        return int(status)
    rows = [[item.pin.name, item.pin.version, item.newest or "-", _state(item)] for item in found]
    click.echo(output.table(["pin", "version", "newest", "state"], rows))
    return int(status)


@command.command(epilog=UPDATE)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write here, not into the farm's own lock."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def update(out: Path | None, as_json: bool) -> None:
    """Pin what is served now: newest Debian packages, wheels in the versions of the farm's own environment."""
    from containers.image import pins
    from containers.image import update as served
    from kernelfarm import files, paths
    from kernelfarm.store import ContentStore

    before = pins.load()
    home = paths.home().create()
    with working("asking", quiet=as_json) as tell:
        after = served.update(before, ContentStore(home.store), tell)
    place = out or pins.LOCK
    files.atomic_write(place, pins.dumps(after).encode())
    old = {(pin.kind, pin.name): pin for pin in before.packages}
    changed = [(old[pin.kind, pin.name], pin) for pin in after.packages if old[pin.kind, pin.name] != pin]
    if as_json:
        entries = [{"name": new.name, "from": was.version, "to": new.version} for was, new in changed]
        output.print_json({"schema": "pins-update/1", "file": str(place), "changed": entries})
        return
    for was, new in changed:
        click.echo(f"{new.name}: {was.version} -> {new.version}")
    click.echo(f"wrote {place}, {len(changed)} of {len(after.packages)} pins changed")


def _state(item: Finding) -> str:
    if item.served:
        return "served" if item.newest in ("", item.pin.version) else "served, not the newest"
    return "no longer served, in the content store" if item.held else "NO LONGER SERVED"
