"""What the licence gate judges of a payload: objects and sources in its links, its files, model, wheels, packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containers.image.pins import Pin
from farm.payload import INCLUDE, KERNELS, LIBRARY, LINKS, PROGRAM, PayloadFolder
from kernelfarm import canonical, digest
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.links import Links, Origin, Source
from kernelfarm.oci_bundle import CONFIG, BundleView, PayloadView
from kernelfarm.store import ContentStore
from sbom import declared
from sbom.licence import packages
from sbom.licence.nouns import Material, Piece, Role
from toolchains import origins

OWN = ("kernel-farm-products", "Apache-2.0")
"""Linked files and the public header: their sources are judged beside them, here their own bytes are."""
_SHIPPED = (INCLUDE, KERNELS, LIBRARY, PROGRAM)
_GENERATED = "generated/"
_TABLE = "sbom/declared.toml"


@dataclass(frozen=True, slots=True)
class Contents:
    """A payload's files: each with a digest, and where its bytes lie; two of them are read."""

    target: str
    payload: Digest
    files: Mapping[str, Piece]
    paths: Mapping[str, Path]
    links: Links
    config: Mapping[str, Any]

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self.config["model"]["name"])


def of_folder(target: str, folder: PayloadFolder) -> Contents:
    """The contents of a payload that lies in a folder. Raises `FarmError` PAYLOAD_INCONSISTENT."""
    pieces = {name: Piece(name, blob.digest, blob.size) for name, blob in folder.blobs.items()}
    texts = {name: folder.paths[name].read_bytes() for name in (LINKS, CONFIG)}
    return _contents(target, folder.digest, pieces, folder.paths, texts)


def of_bundle(view: BundleView, payload: PayloadView) -> Contents:
    """The contents of a payload in a bundle without faults. Raises `FarmError` PAYLOAD_INCONSISTENT."""
    pieces = {name: Piece(name, blob.digest, blob.size) for name, blob in payload.files.items()}
    paths = {name: view.folder.blob_path(blob) for name, blob in payload.files.items()}
    if LINKS not in payload.files:
        raise _inconsistent(payload.target, f"it has no {LINKS}")
    texts = {name: view.folder.read_blob(payload.files[name]) for name in (LINKS, CONFIG)}
    return _contents(payload.target, payload.digest, pieces, paths, texts)


def _contents(
    target: str, payload: Digest, pieces: Mapping[str, Piece], paths: Mapping[str, Path], texts: Mapping[str, bytes]
) -> Contents:
    try:
        links = canonical.decode(Links, texts[LINKS], name=LINKS)
        config = canonical.loads(texts[CONFIG], strict=True, name=CONFIG)
    except FarmError as reason:
        raise _inconsistent(target, str(reason)) from reason
    if why := _fault(config):
        raise _inconsistent(target, f"{CONFIG} {why}")
    return Contents(target, payload, pieces, paths, links, config)


def _fault(config: Any) -> str:
    """What a payload's configuration lacks that is judged."""
    model, tools = (config.get(name) if isinstance(config, dict) else None for name in ("model", "tools"))
    if not (isinstance(model, dict) and isinstance(model.get("name"), str) and model["name"]):
        return "does not name its model"
    if not isinstance(tools, dict):
        return "does not list its tools"
    try:
        digest.parse(str(model.get("digest")))
    except FarmError:
        return "does not say which model it is"
    for name, tool in tools.items():
        version = tool.get("version") if isinstance(tool, dict) else None
        if not declared.normalised(name).strip("-./ ") or not isinstance(version, str) or not version:
            return f"lists the tool {name!r} without name and version"
    return ""


def materials(contents: Contents, model_licence: str, pins: Iterable[Pin], store: ContentStore) -> list[Material]:
    """Everything that has a licence. `pins` are the image's packages; what the store holds of them is read."""
    return [
        *_linked(contents.links),
        _products(contents),
        _model(contents, model_licence),
        *_packages(contents.config["tools"], pins, store),
    ]


def places(contents: Contents) -> dict[Digest, Path]:
    """Where the bytes to scan lie, by their digest; sources that this installation does not have are left out."""
    found = {}
    for source in contents.links.sources:
        place = None if source.name.startswith(_GENERATED) else origins.place_of(source.name)
        if place is not None and digest.of_file(place) == source.digest:
            found[source.digest] = place
    return found | {contents.files[name].digest: contents.paths[name] for name in _SHIPPED}


def _linked(links: Links) -> list[Material]:
    groups: dict[str, list[Source]] = {}
    table = declared.load()
    used = {name for linked in links.files for one in linked.inputs for name in one.sources}
    for source in links.sources:
        if source.name in used:
            groups.setdefault(table.group(source.name).name, []).append(source)
    found = []
    for name, sources in sorted(groups.items()):
        group = table.group(sources[0].name)
        pieces = tuple(Piece(one.name, one.digest, one.size, not one.name.startswith(_GENERATED)) for one in sources)
        purl = packages.purl("pypi", declared.normalised(group.package)) if group.package else ""
        found.append(
            Material(name, "", purl, Role.LINKED, group.declared.licence, _TABLE, pieces),
        )
    return [*found, *_strangers(links)]


def _strangers(links: Links) -> list[Material]:
    """Objects that nothing explains: whatever they are, they have no business in the link."""
    return [
        Material(
            f"{linked.name}:{one.name}",
            "",
            "",
            Role.LINKED,
            "",
            "",
            (Piece(one.name, one.digest, one.kept, scanned=False),),
            note=f"{one.name} is linked into {linked.name} and nothing says what it was compiled from",
            refused=True,
        )
        for linked in links.files
        for one in linked.inputs
        if one.origin is Origin.UNKNOWN
    ]


def _products(contents: Contents) -> Material:
    pieces = tuple(contents.files[name] for name in _SHIPPED)
    return Material(OWN[0], "", "", Role.LINKED, OWN[1], "the farm's LICENSE", pieces)


def _model(contents: Contents, licence: str) -> Material:
    """The model is one for all targets, whose weights differ in their layouts: its content is its own digest."""
    note = "nobody said under which licence the model may be shipped"
    content = digest.parse(contents.config["model"]["digest"])
    return Material(contents.model, "", "", Role.MODEL, licence, "--model-licence", note=note, content=content)


def _packages(tools: Mapping[str, Any], pins: Iterable[Pin], store: ContentStore) -> list[Material]:
    """The wheels that compiled it, and all packages of the image's lock. A wheel's own metadata are those of the very
    version: of the lock's, else as it is installed here.
    """
    locked = {(declared.normalised(pin.name), pin.version): pin for pin in pins if pin.kind == "wheel"}
    found = []
    for name, entry in tools.items():
        version, pin = entry["version"], locked.pop((declared.normalised(name), entry["version"]), None)
        own = packages.of_installed(name, version)
        if own == packages.NOTHING and pin is not None:
            own = _of_pin(pin, store)
        found.append(_wheel(name, version, own, pin.digest if pin is not None else entry.get("digest")))
    found += [_wheel(pin.name, pin.version, _of_pin(pin, store), pin.digest) for pin in locked.values()]
    for pin in pins:
        if pin.kind != "wheel":
            purl = packages.purl("deb", pin.name, pin.version)
            licence = declared.load().package("deb", pin.name).licence
            found.append(Material(pin.name, pin.version, purl, Role.TOOL, licence, _TABLE, content=pin.digest))
    return found


def _of_pin(pin: Pin, store: ContentStore) -> packages.Claim:
    return packages.of_wheel(store.open_path(pin.digest)) if store.has(pin.digest) else packages.NOTHING


def _wheel(name: str, version: str, own: packages.Claim, content: Digest | None) -> Material:
    """A wheel under what the table says and what its own metadata say: both, where they differ."""
    plain = declared.normalised(name)
    purl = packages.purl("pypi", plain, version)
    licence, source = packages.both(declared.load().package("pypi", plain).licence, _TABLE, own)
    return Material(plain, version, purl, Role.IMPORTED, licence, source, note=own.note, content=content)


def of_image(made_in: Digest, ours: Digest | None) -> Material:
    """The image as a whole, our own work; its packages are judged by today's lock, which `ours` was built from."""
    doubt = ""
    if made_in != ours:
        now = "today's lock is not built here" if ours is None else f"today's lock gives {ours}"
        doubt = f"it was compiled in the image {made_in}, {now}: the packages judged may not be those that it held"
    return Material("kernel-farm-image", "", "", Role.TOOL, OWN[1], "the farm's LICENSE", content=made_in, doubt=doubt)


def _inconsistent(target: str, why: str) -> FarmError:
    return FarmError(Code.PAYLOAD_INCONSISTENT, f"the payload of {target} cannot be judged", why, "Build it again.")
