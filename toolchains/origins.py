"""From links as they were done to the document of what is in the linked files (`kernelfarm.links`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from kernelfarm import digest
from kernelfarm.links import Input, Linked, Links, Origin, Source
from toolchains import relocatable, runtime_build, sourcelist, zig
from toolchains.zig import Link


def document(links: Sequence[Link], from_model: Collection[Path] = ()) -> Links:
    """The document for links whose objects and sources still lie where they did; objects in `from_model` have none."""
    paths = {path for link in links for made in link.objects for path in sourcelist.read(made)}
    sources = {Source(name_of(path), digest.of_file(path), path.stat().st_size) for path in paths}
    return Links(
        tuple(Linked(link.output.name, _inputs(link, from_model)) for link in links),
        tuple(sources),
    )


def _inputs(link: Link, from_model: Collection[Path]) -> tuple[Input, ...]:
    """Every object that was given, and every archive's member that the map names."""
    given = {path.name: path for path in link.objects}
    members = {name for name in link.kept if name.partition("(")[0] != name}
    names = (set(given) | set(link.kept)) - {name.partition("(")[0] for name in members}
    return tuple(_input(name, given[name.partition("(")[0]], link, from_model) for name in sorted(names))


def _input(name: str, path: Path, link: Link, from_model: Collection[Path]) -> Input:
    sections = {section: size for section, size in link.kept.get(name, {}).items() if size}
    sources = tuple(name_of(source) for source in sourcelist.read(path))
    origin = Origin.SOURCES if sources else Origin.UNKNOWN
    if path in from_model:
        origin, sources = Origin.MODEL, ()
    taken = digest.of_file(path) if path.name != name else relocatable.kept(path, sections)
    return Input(name, taken, origin, sum(sections.values()), tuple(sections), sources)


def name_of(path: Path) -> str:
    """What a source is called in a payload: "runtime/src/api.c", "zig/lib/std/mem.zig", "generated/table.c"."""
    for root, name in ((runtime_build.source_root(), "runtime"), (zig.zig_root(), "zig")):
        if path.is_relative_to(root):
            return f"{name}/{path.relative_to(root).as_posix()}"
    public = runtime_build.source_root() / "include" / path.name
    if public.is_file() and digest.of_file(public) == digest.of_file(path):
        return f"runtime/include/{path.name}"  # a copy, in a private folder
    return f"generated/{path.name}"


def place_of(name: str) -> Path | None:
    """Where a source of that name lies in this installation; None for a generated one, or one that is not here."""
    root, _, rest = name.partition("/")
    folder = {"runtime": runtime_build.source_root(), "zig": zig.zig_root()}.get(root)
    if folder is None or not (folder / rest).is_file() or ".." in rest.split("/"):
        return None
    return folder / rest
