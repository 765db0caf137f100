"""`farm image`: the pinned root file system that sealed compiles run in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli import output
from farm.cli.command import Group
from farm.cli.working import working

if TYPE_CHECKING:
    from containers.image import Image

EPILOG = """\b
Examples:
  farm image build
  farm image show
  farm image verify --rebuild
  farm image export compiler.tar
  farm image sbom > image.cdx.json"""
BUILD = """\b
Examples:
  farm image build
  farm image build --again --json"""
SHOW = """\b
Examples:
  farm image show
  farm image show --json"""
VERIFY = """\b
Examples:
  farm image verify
  farm image verify --rebuild"""
EXPORT = """\b
Examples:
  farm image export compiler.tar
  farm image export compiler.tar && docker load -i compiler.tar"""
SBOM = """\b
Examples:
  farm image sbom > image.cdx.json"""
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("image", cls=Group, epilog=EPILOG)
def command() -> None:
    """Build, show, verify, export and describe the image that compiles run in.

    It holds the pinned tools and nothing of the farm's own code, and is the same bytes on every build, so that its
    digest in a provenance can be checked by anybody who builds it again.
    """


@command.command(epilog=BUILD)
@click.option("--again", is_flag=True, help="Build it although it is there, and replace it.")
@JSON
def build(again: bool, as_json: bool) -> None:
    """Build the image from its lock; packages come from the content store, else through apt and pip."""
    from containers import image
    from kernelfarm import paths

    home = paths.home().create()
    with working("building the image", quiet=as_json) as tell:
        made = image.ensure(home, again=again, tell=tell)
    _show(made, as_json=as_json)


@command.command(epilog=SHOW)
@JSON
def show(as_json: bool) -> None:
    """Show the digests, layers and places of the image that is built here."""
    _show(_built(), as_json=as_json)


@command.command(epilog=VERIFY)
@click.option("--rebuild", is_flag=True, help="Also build it again from the lock and compare the digests.")
@JSON
def verify(rebuild: bool, as_json: bool) -> None:
    """Hash every byte of the image: archive, documents, root folder, and the tools in it against those here."""
    from containers import image
    from containers.image import verify as check
    from kernelfarm import paths

    found = _built()
    with working("verifying the image", quiet=as_json) as tell:
        tell("hashing the archive and the root folder")
        check.verify(found)
        check.require_tools(found)
        if rebuild:
            image.rebuild(paths.home(), found, tell=tell)
    if as_json:
        output.print_json({"schema": "image-verified/1", "digest": found.digest, "rebuilt": rebuild})
    else:
        click.echo(f"verified {found.digest}" + (", built again with the same digest" if rebuild else ""))


@command.command(epilog=EXPORT)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@JSON
def export(file: Path, as_json: bool) -> None:
    """Copy the image's archive to FILE: `docker load` takes it, and it is an OCI image layout in a tar."""
    from containers.image import verify as check

    found = _built()
    check.export(found, file)
    if as_json:
        output.print_json({"schema": "image-export/1", "digest": found.digest, "file": str(file)})
    else:
        click.echo(f"wrote {file} ({output.size(file.stat().st_size)}), image {found.docker_id}")


@command.command(epilog=SBOM)
@JSON
def sbom(as_json: bool) -> None:
    """Print the image's bill of materials, CycloneDX 1.6 JSON: its packages with hash, licence and supplier."""
    from farm import pinned
    from sbom import document, image

    del as_json  # it is JSON in any case
    click.echo(document.of_bill(image.bill(_built().digest, pinned.lock())).decode())


def _built() -> Image:
    from containers import image
    from kernelfarm import paths

    return image.require(paths.home())


def _show(found: Image, *, as_json: bool) -> None:
    if as_json:
        output.print_json(_document(found))
        return
    rows = [
        [layer.name, output.short(layer.digest), str(layer.files), output.size(layer.unpacked)]
        for layer in found.layers
    ]
    click.echo(output.table(["layer", "digest", "files", "unpacked"], rows))
    click.echo(f"image     {found.digest}\nin docker {found.docker_id}\nunpacked  {output.size(found.unpacked)}")
    click.echo(f"archive   {found.archive}\nroot      {found.rootfs}")


def _document(found: Image) -> dict[str, Any]:
    return {
        "schema": "image/1",
        "digest": found.digest,
        "docker_id": found.docker_id,
        "unpacked_bytes": found.unpacked,
        "archive": str(found.archive),
        "root": str(found.rootfs),
        "layers": [
            {
                "name": layer.name,
                "digest": layer.digest,
                "archive_bytes": layer.size,
                "unpacked_bytes": layer.unpacked,
                "files": layer.files,
            }
            for layer in found.layers
        ],
    }
