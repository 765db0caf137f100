"""`farm inspect`: what a bundle or a file holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from farm.cli import output
from farm.cli.command import Command

EPILOG = """\b
Examples:
  farm inspect bundles/model
  farm inspect bundles/model --json
  farm inspect libmedia_engine.so                a linked file, media.hdr, media.idx or a JSON document"""


@click.command("inspect", cls=Command, epilog=EPILOG)
@click.argument("path", metavar="BUNDLE|FILE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help='Print a JSON document: "digest", "targets": {name: {...}}.')
def command(path: Path, as_json: bool) -> None:
    """Show what BUNDLE or FILE holds: payloads, sizes, tensors, and the hardening as read from the linked files.

    A bundle must be whole, but its signature is not checked: that is `farm verify`.
    """
    from farm.inspect import inspect

    found = inspect(path)
    if as_json:
        output.print_json(found)
    elif found["kind"] == "bundle":
        _print_bundle(found)
    else:
        _print_file(found)


def _print_bundle(found: Mapping[str, Any]) -> None:
    click.echo(f"{found['name']} {found['version'] or '(no version)'}  {found['digest']}  {output.size(found['size'])}")
    for name, payload in found["targets"].items():
        click.echo(f"\n{name}  {payload['digest']}  {output.size(payload['size'])}")
        rows = [[title, output.size(blob["size"]), blob["digest"]] for title, blob in payload["files"].items()]
        click.echo(_indent(output.table(["file", "size", "digest"], rows)))
        for label in ("inputs", "outputs"):
            for tensor in payload.get(label, []):
                shape = "x".join(str(dim) for dim in tensor["shape"])
                click.echo(f"  {label.removesuffix('s'):8}{tensor['name']}  {tensor['dtype']} {shape}")
        click.echo(f"  golden  {_text(payload['golden'])}")
        click.echo(_indent(_hardening(payload["hardening"])))
    click.echo("\nattestations (signatures not checked here: `farm verify`)")
    rows = [[item["kind"], output.short(item["subject"]), item["key"]] for item in found["attestations"]]
    click.echo(_indent(output.table(["kind", "about", "key"], rows)))


def _hardening(hardening: Mapping[str, Any]) -> str:
    properties = hardening.get("properties")
    if properties is None:
        return output.table(["fact", "as read"], [[name, _text(value)] for name, value in hardening.items()])
    rows = [[name, "yes" if item["holds"] else "NO", item["evidence"]] for name, item in properties.items()]
    return output.table(["hardening", "holds", "as read from the file"], rows)


def _print_file(found: Mapping[str, Any]) -> None:
    click.echo(f"{found['kind']}  {found['digest']}  {output.size(found['size'])}")
    shown = found.get("hardening") or found.get("header") or found.get("golden") or found.get("content")
    rows = shown.items() if isinstance(shown, Mapping) else enumerate(found.get("headers", []))
    click.echo(_indent(output.table(["fact", "as read"], [[str(name), _text(value)] for name, value in rows])))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return (
        {True: "yes", False: "no", None: "none"}.get(value, str(value))
        if isinstance(value, bool | None)
        else str(value)
    )


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
