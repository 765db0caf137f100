"""`farm audit`: what is in a bundle, and which bundles hold a component or a licence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli import output
from farm.cli.command import Group
from kernelfarm.errors import Code, FarmError

if TYPE_CHECKING:
    from farm.audit import Hit

EPILOG = """\b
Examples:
  farm audit bundles/model                                       what it holds, from its bills of materials
  farm audit bundles/model --json
  farm audit find --component pkg:pypi/ziglang                   in everything that this farm keeps
  farm audit find --licence GPL-2.0-only bundles                 in the bundles of a folder

\b
Each bill is held against the bytes of its payload first; signatures are not checked: `farm verify` does that.
A bundle in a folder called "find" is ./find."""
FIND = """\b
Examples:
  farm audit find --component pkg:pypi/ziglang@0.17.0
  farm audit find --licence Linux-syscall-note bundles other/model
  farm audit find --component pkg:generic/kernel-farm-runtime --json

\b
What a purl leaves out (version, qualifiers, subpath) may be anything. A licence is found with and without its
exception, and an exception by its own name. Tools, and packages of the image that the recipe pins them in, are found
too; no payload holds them. Exit status 0, whether something is found or not."""
_SHOW = "show"


class _Audit(Group):
    """`farm audit BUNDLE` beside `farm audit find`: what is no command is a bundle."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = [_SHOW, *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options before the bundle belong to it: `farm audit --json BUNDLE`."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)


@click.group("audit", cls=_Audit, epilog=EPILOG, subcommand_metavar="BUNDLE | find ...")
def command() -> None:
    """Show what a bundle holds, or find who holds a component."""


@command.command(_SHOW, hidden=True)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(bundle: Path, as_json: bool) -> None:
    """Show what BUNDLE holds: components, versions, licences, suppliers, and the model before and after scrubbing."""
    from farm.audit import audit

    found = audit(bundle)
    if as_json:
        output.print_json(found)
        return
    click.echo(f"{found['name']} {found['version'] or '(no version)'}  {found['digest']}")
    for name, target in found["targets"].items():
        _print_target(name, target)
    click.echo(output.style("\nSignatures were not checked: `farm verify` does that.", "yellow"))


@command.command("find", epilog=FIND)
@click.argument("places", metavar="[BUNDLE|FOLDER]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--component", "purl", metavar="PURL", default="", help="The component's package URL.")
@click.option("--licence", "--license", "licence", metavar="ID", default="", help="An SPDX licence or exception.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def find(places: Sequence[Path], purl: str, licence: str, as_json: bool) -> None:
    """Find the payloads that hold a component or a licence, in bundles or in all that this farm keeps."""
    from farm import audit, config, scheduler
    from sbom.read import parse_purl

    if not purl and not licence:
        raise FarmError(Code.USAGE, "nothing to look for", "", "Give --component PURL, --licence ID, or both.")
    without: list[audit.Nameless] = []
    wanted = audit.Wanted(parse_purl(purl) if purl else None, licence)
    if places:
        count, hits = audit.find(audit.of_folders(places, without), wanted)
    else:
        with scheduler.session(config.load()) as farm:
            count, hits = audit.find(audit.of_farm(farm.ledger, farm.store, without), wanted)
    if as_json:
        asked = {"component": purl or None, "licence": licence or None}
        found = [hit.to_json() for hit in hits]
        unknown = [{"place": one.place, "model": one.model, "target": one.target} for one in without]
        document = {"schema": "audit-find/1", "asked": asked, "payloads": count, "found": found}
        output.print_json({**document, "without_bill": unknown})
        return
    _print_hits(count, hits)
    for one in without:
        place = one.place or "this farm"
        click.echo(output.style(f"{one.model} for {one.target} in {place} has no bill of materials", "yellow"))


def _print_hits(count: int, hits: Sequence[Hit]) -> None:
    shipping = {(hit.where.place, hit.where.payload) for hit in hits if hit.component.used}
    others = {(hit.where.place, hit.where.payload) for hit in hits} - shipping
    rows = [
        [
            hit.where.place or "this farm",
            hit.where.model,
            hit.where.target,
            f"{hit.component.name} {hit.component.version}".strip(),
            hit.component.licence or "unknown",
            hit.how,
        ]
        for hit in hits
    ]
    if rows:
        click.echo(output.table(["where", "model", "target", "component", "licence", "how"], rows))
    made_with = f", {len(others)} more were made with it or name it in the recipe's image" if others else ""
    click.echo(f"{len(shipping)} of {count} payloads hold it{made_with}")


def _print_target(name: str, target: Mapping[str, Any]) -> None:
    from sbom.image import REF as IMAGE

    model = target["model"]
    click.echo(
        f"\n{name}  {target['payload']}\n  bill of materials  {target['sbom']['digest']}  {target['sbom']['serial']}"
    )
    click.echo(f"  model              {model['name']}  {model['digest']}")
    click.echo(f"  before scrubbing   {model['before_scrubbing'] or 'not recorded'}")
    rows = [
        [
            item["name"],
            item.get("version", ""),
            "in it" if item["used"] else "made it",
            item.get("licence", "unknown"),
            item.get("supplier", ""),
            item.get("purl", ""),
        ]
        for item in target["components"]
        if "purl" in item and item.get("inside") != IMAGE
    ]
    click.echo(_indent(output.table(["component", "version", "is", "licence", "supplier", "purl"], rows)))
    packages = sum(item.get("inside") == IMAGE for item in target["components"])
    rest = sum("purl" not in item for item in target["components"])
    click.echo(f"  and {packages} packages of the image, {rest} files, objects and sources (--json lists them)")
    if target["without_licence"]:
        click.echo(f"  no licence is declared of {', '.join(target['without_licence'])}")


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
