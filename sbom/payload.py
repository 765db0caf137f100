"""The bill of materials of a payload: a pure function of its other files and of its recipe.

The model, before and after scrubbing; every file with two hashes; for each linked file the objects that the linker
kept, and their sources; the tools of the recipe, and the packages of the image that they are pinned in. The image is
the recipe's, from its lock: which runner compiled, and whether in an image, decides no byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packageurl import PackageURL

from kernelfarm import canonical, digest, links
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.links import Input, Links, Origin
from kernelfarm.nouns import Model, ToolIdentity
from sbom import declared, image
from sbom.declared import SourceGroup
from sbom.making import LIBRARIES, Making
from sbom.parts import SHORT, Bill, Hashes, Kind, Part, own
from toolchains.tools import tool_identities

NAME = "sbom.cdx.json"
CONFIG = "config.json"
MODEL_REF = "model"
ORIGINAL_REF = "model-before-scrubbing"

_GENERIC = "generic"
_KINDS: Mapping[str, Kind] = {
    "golden.bin": Kind.DATA,
    "kernels.so": Kind.LIBRARY,
    "libmedia_engine.so": Kind.LIBRARY,
    "media-run": Kind.APPLICATION,
    "weights.bin": Kind.DATA,
}
_OWN_SOURCES = ("runtime/", "generated/")
_FROM_MODEL = ("golden.bin", "weights.bin")
_BINARIES = ("kernels.so", "libmedia_engine.so", "media-run")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a payload's folder holds: hashes by file name, its configuration, and what was linked."""

    hashes: Mapping[str, Hashes]
    config: Mapping[str, Any]
    links: Links

    @classmethod
    def read(cls, folder: Path) -> Contents:
        """The contents of a folder; a bill that lies there already is left out.

        Raises `FarmError` PAYLOAD_INVALID for documents that are none, and `OSError`.
        """
        hashes = {path.name: Hashes.of_file(path) for path in sorted(folder.iterdir()) if path.name != NAME}
        try:
            config = canonical.loads((folder / CONFIG).read_bytes(), strict=True, name=CONFIG)
            linked = canonical.decode(Links, (folder / links.NAME).read_bytes(), name=links.NAME)
            _require(config, linked, hashes)
        except (FarmError, FileNotFoundError) as reason:
            why = reason.why or reason.what if isinstance(reason, FarmError) else str(reason.strerror)
            raise FarmError(Code.PAYLOAD_INVALID, "the payload cannot be described", why) from reason
        return cls(hashes, config, linked)


def bill(contents: Contents, making: Making) -> Bill:
    """The bill of a payload that was made so."""
    files = [_file(name, contents) for name in contents.hashes]
    objects = _objects(contents.links)
    groups = _groups(contents.links, making)
    tools = [_tool(tool, making) for tool in making.recipe.tools]
    parts = (_model(making), *files, *objects, *groups, *tools, image.part(making.image))
    needs = frozenset((*_needs(contents), *_tool_needs(making)))
    return Bill(_root(making), tuple(_makers(making)), tuple(parts), needs)


def file_ref(name: str) -> str:
    """The ref of a payload's file."""
    return f"file/{name}"


def object_ref(found: Input) -> str:
    """The ref of what was kept of an object: one for all files that the same is linked into.

    It holds the whole digest, which is of no file, and so nothing that CycloneDX calls a hash of the component.
    """
    return f"object/{found.name}@{digest.hex_of(found.digest)}"


def _root(making: Making) -> Part:
    recipe = making.recipe_key
    version = digest.hex_of(recipe)[:SHORT]
    purl = PackageURL(_GENERIC, "kernel-farm", making.model.name, version, {"target": making.target_name})
    properties = {
        "abi-version": str(making.recipe.abi_version),
        "ir-version": making.recipe.ir_version,
        "recipe-key": recipe,
        "target": making.target_name,
        "target-digest": making.recipe.target_digest,
    }
    return Part(
        "payload",
        Kind.APPLICATION,
        f"{making.model.name}/{making.target_name}",
        version,
        purl.to_string(),
        description="Compiled kernels of a model for a target, with the runtime that runs them",
        properties=own(properties),
    )


def _model(making: Making) -> Part:
    model = making.model
    purl = PackageURL(_GENERIC, None, model.name, None, {"checksum": str(model.digest)})
    inside = tuple(
        Part(f"model/{item.name}", Kind.DATA, item.name, hashes=Hashes.of_digest(item.digest))
        for item in model.external
    )
    return Part(
        MODEL_REF,
        Kind.MODEL,
        model.name,
        digest.hex_of(model.digest)[:SHORT],
        purl.to_string(),
        Hashes.of_digest(model.digest),
        description="The model as it was compiled: its file after scrubbing",
        properties=own({"hashed": "after scrubbing", "licence": "see the licence verdict, an attestation"}),
        parts=inside,
        ancestors=() if model.before is None else (_original(model, model.before),),
    )


def _original(model: Model, before: Digest) -> Part:
    """The model's file as it was handed in: the same hash where there was nothing to scrub."""
    return Part(
        ORIGINAL_REF,
        Kind.MODEL,
        model.name,
        digest.hex_of(before)[:SHORT],
        hashes=Hashes.of_digest(before),
        description="The model's file as it was handed in, without its external data; nothing of it is shipped",
        used=False,
        properties=own({"hashed": "before scrubbing"}),
    )


def _file(name: str, contents: Contents) -> Part:
    """A file of the payload, with the properties of BSI TR-03183-2 (file name, executable, archive, structured)."""
    binary = name in _BINARIES
    taxonomy = {
        "archive": "no archive",
        "executable": "executable" if binary else "non-executable",
        "filename": name,
        "structured": "unstructured",
    }
    linked = next((file for file in contents.links.files if file.name == name), None)
    licence = "" if linked is None else _all_of(linked.inputs)
    return Part(
        file_ref(name),
        _KINDS.get(name, Kind.FILE),
        name,
        hashes=contents.hashes[name],
        licence=licence,
        properties=tuple((f"bsi:component:{key}", value) for key, value in taxonomy.items()),
    )


def _all_of(inputs: Iterable[Input]) -> str:
    """The licences of all sources of a link, every one of which holds; empty when one is not known."""
    found = set()
    for each in inputs:
        if each.origin is not Origin.SOURCES:
            return ""
        found |= {declared.load().group(source).declared.licence for source in each.sources}
    if "" in found:
        return ""
    return " AND ".join(f"({item})" if " OR " in item else item for item in sorted(found))


def _objects(linked: Links) -> list[Part]:
    """Each object once, with the files that it is linked into and how much of it they kept."""
    into: dict[str, dict[str, str]] = {}
    found: dict[str, Input] = {}
    for file in linked.files:
        for each in file.inputs:
            found[object_ref(each)] = each
            kept = f"{each.kept} bytes of {' '.join(each.sections)}" if each.kept else "nothing"
            into.setdefault(object_ref(each), {})[f"kept-in-{file.name}"] = kept
    return [
        Part(
            ref,
            Kind.FILE,
            each.name,
            properties=own({**into[ref], "kept": each.digest, "origin": each.origin.value}),
        )
        for ref, each in found.items()
    ]


def _groups(linked: Links, making: Making) -> list[Part]:
    """The sources, each group of one publisher with its files inside."""
    members: dict[SourceGroup, list[Part]] = {}
    for source in linked.sources:
        part = Part(f"source/{source.name}", Kind.FILE, source.name, hashes=Hashes.of_digest(source.digest))
        members.setdefault(declared.load().group(source.name), []).append(part)
    return [_group(group, parts, making) for group, parts in members.items()]


def _group(group: SourceGroup, parts: list[Part], making: Making) -> Part:
    version = _version(group, making)
    folder = group.prefix.removeprefix("zig/").strip("/")
    if group.package:
        purl = PackageURL("pypi", None, group.package, version or None, None, folder)
    else:
        purl = PackageURL(_GENERIC, None, group.name, version or None)
    return Part(
        f"group/{group.prefix}",
        Kind.LIBRARY,
        group.name,
        version,
        purl.to_string(),
        licence=group.declared.licence,
        supplier=group.declared.supplier,
        parts=tuple(parts),
    )


def _version(group: SourceGroup, making: Making) -> str:
    """That of the wheel that brings it, of our own the digest of the runtime's sources; of a stranger's nothing."""
    if group.package:
        versions = {declared.normalised(tool.name): tool.version for tool in making.recipe.tools}
        return versions.get(group.package, "")
    return digest.hex_of(making.recipe.runtime_source)[:SHORT] if group.prefix in _OWN_SOURCES else ""


def tool_ref(name: str) -> str:
    """The ref of a tool of the recipe."""
    return f"tool/{name}"


def _tool(tool: ToolIdentity, making: Making) -> Part:
    """A tool of the recipe. Its digest is that of its installed files, which is no hash that CycloneDX knows.

    The image's lock says which wheel brings it, where it holds this very version.
    """
    about = declared.load().package("pypi", tool.name)
    wheel = making.image.wheel(tool.name, tool.version)
    brought = {} if wheel is None else {"package-in-image": wheel.ref}
    return Part(
        tool_ref(tool.name),
        Kind.APPLICATION,
        tool.name,
        tool.version,
        PackageURL("pypi", None, declared.normalised(tool.name), tool.version).to_string(),
        licence=about.licence,
        supplier=about.supplier,
        used=False,
        properties=own({"installed-files": tool.digest, **brought}),
    )


def _tool_needs(making: Making) -> Iterable[tuple[str, str]]:
    """The image needs its packages; a tool needs the one that brings it."""
    yield from image.needs(making.image)
    for tool in making.recipe.tools:
        if (wheel := making.image.wheel(tool.name, tool.version)) is not None:
            yield tool_ref(tool.name), wheel.ref


def _makers(making: Making) -> Iterable[Part]:
    version = digest.hex_of(making.recipe.compiler_source)[:SHORT]
    purl = PackageURL(_GENERIC, None, "kernel-farm", version).to_string()
    yield Part("maker/kernel-farm", Kind.APPLICATION, "kernel-farm", version, purl, None, "Apache-2.0", "Kernel Farm")
    for name, tool in sorted(tool_identities(LIBRARIES).items()):
        about = declared.load().package("pypi", name)
        purl = PackageURL("pypi", None, declared.normalised(name), tool.version).to_string()
        yield Part(
            f"maker/{name}", Kind.LIBRARY, name, tool.version, purl, None, about.licence, about.supplier, used=False
        )


def _needs(contents: Contents) -> Iterable[tuple[str, str]]:
    yield from (("payload", file_ref(name)) for name in contents.hashes)
    yield from ((file_ref(name), MODEL_REF) for name in _FROM_MODEL if name in contents.hashes)
    for file in contents.links.files:
        for each in file.inputs:
            yield file_ref(file.name), object_ref(each)
            yield from ((object_ref(each), f"source/{source}") for source in each.sources)
            if each.origin is Origin.MODEL:
                yield object_ref(each), MODEL_REF


def _require(config: Any, linked: Links, hashes: Mapping[str, Hashes]) -> None:
    """Raise `FarmError` unless the two documents have what a bill reads, and fit the files."""
    tensors = [config.get(name) for name in ("inputs", "outputs")] if isinstance(config, dict) else []
    if (
        not tensors
        or not all(isinstance(items, list) for items in (*tensors, config.get("stages", [])))
        or not isinstance(config.get("model"), dict)
    ):
        raise FarmError(Code.SCHEMA_MISMATCH, f"{CONFIG} has no model, inputs, outputs and stages")
    names = {source.name for source in linked.sources}
    for file in linked.files:
        if file.name not in hashes:
            raise FarmError(Code.SCHEMA_MISMATCH, f"{links.NAME} names {file.name}, which is not there")
        if unknown := sorted({name for each in file.inputs for name in each.sources} - names):
            raise FarmError(Code.SCHEMA_MISMATCH, f"{links.NAME} does not list the source {unknown[0]}")
    if missing := sorted(set(_BINARIES) & set(hashes) - {file.name for file in linked.files}):
        raise FarmError(Code.SCHEMA_MISMATCH, f"{links.NAME} says nothing of {missing[0]}")
