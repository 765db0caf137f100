"""`farm targets`: the kinds of devices that the farm compiles for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from farm.cli import output
from farm.cli.command import Command

if TYPE_CHECKING:
    from toolchains.devices import Device
    from toolchains.target import Target

EPILOG = """\b
Examples:
  farm targets
  farm targets x86-64-v3
  farm targets --devices
  farm targets device:raspberry-pi-5
  farm targets --json"""


@click.command("targets", cls=Command, epilog=EPILOG)
@click.argument("name", required=False)
@click.option("--devices", is_flag=True, help="List the catalogue of devices, each with its target.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str | None, devices: bool, as_json: bool) -> None:
    """List the targets, or show everything about the target NAME; a device of the catalogue is device:NAME."""
    from toolchains import devices as catalogue
    from toolchains import target

    if devices:
        _list_devices(catalogue.catalogue(), as_json=as_json)
        return
    name = catalogue.resolve(name) if name else None
    found = [target.load(item) for item in ([name] if name else target.names())]
    if as_json:
        entries = {item.name: {**item.to_json(), "digest": item.digest} for item in found}
        output.print_json({"schema": "targets/1", "targets": entries})
    elif name:
        click.echo(_details(found[0]))
    else:
        rows = [[item.name, item.triple, item.cpu.name, _vector(item), item.summary] for item in found]
        click.echo(output.table(["target", "triple", "cpu", "vectors", "summary"], rows))


def _list_devices(found: Mapping[str, Device], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"schema": "devices/1", "devices": {name: item.to_json() for name, item in found.items()}})
        return
    rows = [[f"device:{item.name}", item.target, item.processor, item.summary] for item in found.values()]
    click.echo(output.table(["device", "target", "processor", "summary"], rows))
    for item in found.values():
        if item.note:
            click.echo(f"{item.name}: {item.note}")


def _vector(item: Target) -> str:
    return f"{item.vector.registers} x {item.vector.bytes * 8} bit"


def _details(item: Target) -> str:
    memory = item.memory
    facts = {
        "target": item.name,
        "summary": item.summary,
        "digest": item.digest,
        "triple": item.triple,
        "cpu": f"{item.cpu.name} (runtime: {item.cpu.baseline})",
        "features": " ".join(item.cpu.features) or "those of the CPU",
        "required": " ".join(item.cpu.required) or "none",
        "vectors": f"{_vector(item)}, {item.vector.fma_ports} FMA per cycle",
        "caches": f"L1 {output.size(memory.l1d_bytes)}, L2 {output.size(memory.l2_bytes)}",
        "hardening": " ".join(sorted(entry.value for entry in item.hardening.required)),
        "emulator": " ".join(item.run.emulator_argv) or "none: it runs natively",
    }
    width = max(len(key) for key in facts)
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in facts.items())
