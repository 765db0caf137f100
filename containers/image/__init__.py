"""The compile image: the pinned tools in a root file system of their own, the same bytes on every build.

`ensure` builds it or takes it from `<home>/image`, `find` only looks. Our own code is apart (`containers.image.code`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from containers.image import build, pins
from containers.image.build import Built, Layer
from containers.image.fetch import Tell, silent
from containers.image.pins import Pins
from containers.image.unpack import SITE
from kernelfarm import canonical, digest, files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from toolchains import tools
from toolchains.tools import Tool

_BUILDER = ("build", "bytecode", "pins", "standin", "tarball", "trim", "unpack")
"""The modules that decide the image's bytes."""
_NAME = 16  # hex digits of an image's folder


@dataclass(frozen=True, slots=True)
class Image:
    """A built image.

    `digest` is that of its OCI manifest, `docker_id` that of its config, by which Docker's own store names it.
    `archive` holds all of it, `rootfs` is the same tree unpacked, read-only by convention; `python` is a path inside.
    `bytecode` is a cache of its Python modules (`containers.image.bytecode`).
    """

    digest: Digest
    docker_id: Digest
    archive: Path
    rootfs: Path
    python: str
    layers: tuple[Layer, ...]
    bytecode: Path

    @property
    def unpacked(self) -> int:
        """Bytes of all files."""
        return sum(layer.unpacked for layer in self.layers)

    def tools(self) -> dict[str, Tool]:
        """Identities of the pinned tools inside. Raises `FarmError` TOOL_MISSING or TOOL_CHANGED."""
        return tools.tool_identities(site=self.rootfs / SITE)


def ensure(home: Home, *, lock: Pins | None = None, again: bool = False, tell: Tell = silent) -> Image:
    """The image of a lock (the farm's own by default), built when it is not there yet; seconds to minutes then.

    One builds, others wait. With `again` it is built and replaced in any case; compiles that run in the old one
    keep that until they end. Raises `FarmError` as `containers.image.build.build`.
    """
    wanted = pins.load() if lock is None else lock
    found = find(home, lock=wanted)
    if found is not None and not again:
        return found
    place = _place(home, wanted)
    with files.coded("the image could not be prepared", place):
        place.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(place):
        found = find(home, lock=wanted)
        if found is not None and not again:
            return found
        files.sweep(place.parent)
        with files.coded("the image could not be written", place), files.temp_folder(place.parent) as work:
            build.build(wanted, ContentStore(home.store), work, tell)
            work.chmod(0o755)
            os.sync()  # the files reach the disk before the name that says they are whole
            files.replace(work, place)
            files.sync_folder(place.parent)
    found = find(home, lock=wanted)
    assert found is not None
    return found


def find(home: Home, *, lock: Pins | None = None) -> Image | None:
    """The image of a lock if it is built here; reads one small file, needs no network."""
    return at(_place(home, pins.load() if lock is None else lock))


def at(place: Path) -> Image | None:
    """The image in a folder, if there is one."""
    try:
        built = canonical.decode(Built, (place / build.DOCUMENT).read_bytes(), name=build.DOCUMENT)
    except (OSError, FarmError):
        return None
    archive, root, bytecode = (place / name for name in (build.ARCHIVE, build.ROOT, build.BYTECODE))
    return Image(built.digest, built.docker_id, archive, root, build.PYTHON_PATH, built.layers, bytecode)


def require(home: Home) -> Image:
    """The image of the farm's own lock; raises `FarmError` IMAGE_MISSING when it is not built."""
    found = find(home)
    if found is None:
        advice = "Build it once with `farm image build`."
        raise FarmError(Code.IMAGE_MISSING, "the image is not built", f"it would lie below {home.root}", advice)
    return found


def rebuild(home: Home, image: Image, *, tell: Tell = silent) -> None:
    """Build the image of the farm's own lock again, aside; raises `FarmError` IMAGE_INVALID when it is another one."""
    with files.coded("the image could not be written", image.archive), files.temp_folder(home.root / "image") as work:
        built = build.build(pins.load(), ContentStore(home.store), work, tell)
    if (built.digest, built.layers) != (image.digest, image.layers):
        differing = [old.name for old, new in zip(image.layers, built.layers, strict=True) if old != new]
        why = f"the layers {', '.join(differing) or 'are equal, the documents'} differ: {built.digest}"
        raise FarmError(Code.IMAGE_INVALID, f"a second build is not {image.digest}", why, "Report it: it must not be.")


def superseded(home: Home, *, lock: Pins | None = None) -> tuple[Path, ...]:
    """Folders of images of other locks or other code of the farm, sorted: nothing new is compiled in them."""
    current = _place(home, pins.load() if lock is None else lock)
    found = current.parent.glob("[0-9a-f]" * _NAME)
    return tuple(sorted(path for path in found if path.is_dir() and path != current))


def _place(home: Home, wanted: Pins) -> Path:
    """Where the image of a lock lies: by the lock and by the code that builds from it."""
    builder = digest.of_tree(Path(__file__).parent, [f"{name}.py" for name in _BUILDER])
    recipe = {"lock": pins.dumps(wanted), "builder": builder}
    return home.root / "image" / digest.hex_of(canonical.digest_of(recipe))[:_NAME]
