"""Whether a built image is what its digest says: every byte of the archive, and the root folder against it."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import NoReturn

from containers.image import Image
from containers.image.build import documents
from containers.image.clients import ARCHITECTURE
from kernelfarm import canonical, digest, files, oci
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from toolchains import tools

_CHUNK = 1 << 20
_BLOBS = "blobs/sha256/"


def verify(image: Image) -> None:
    """Hash the archive's blobs and compare its documents and the root folder with them; reads all bytes twice.

    Raises `FarmError` IMAGE_INVALID that names the first difference, or a coded error of the disk.
    """
    with files.coded("the image cannot be read", image.archive), files.using(image.rootfs.parent):
        _verify(image)


def _verify(image: Image) -> None:
    root: dict[str, tarfile.TarInfo] = {}
    with image.archive.open("rb") as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                blobs = _blobs(archive)
                layers = _documents(image, archive, blobs)
                for layer in layers:
                    _compare(archive, layer, image.rootfs, root)
        except (tarfile.TarError, KeyError, EOFError) as reason:
            _bad(f"{image.archive.name} cannot be read: {reason}")
    _nothing_else(image.rootfs, set(root))


def require_tools(image: Image) -> None:
    """Raise `FarmError` IMAGE_INVALID unless the image's tools are those of the farm's environment, which keys name."""
    inside, here = image.tools(), tools.tool_identities()
    if other := sorted(name for name in here if inside[name] != here[name]):
        why = f"{', '.join(other)}: another version or another wheel"
        advice = "Use the environment of `make setup` with Python 3.11, or run `farm pins update`."
        raise FarmError(Code.IMAGE_INVALID, "the image's tools are not those of this farm", why, advice)


def export(image: Image, file: Path) -> None:
    """Copy the archive to `file`, whole or not at all. Raises a coded error of the disk."""
    what = "the image could not be exported"
    with files.coded(what, file), image.archive.open("rb") as source, files.temp_file(file.parent) as (stream, temp):
        shutil.copyfileobj(source, stream, _CHUNK)
        files.commit(stream, temp, file)


def _blobs(archive: tarfile.TarFile) -> set[Digest]:
    """Digests of the blobs, each checked against its name."""
    found = set()
    for member in archive:
        if member.name.startswith(_BLOBS):
            stream = archive.extractfile(member)
            assert stream is not None
            value = digest.of_stream(stream)
            if value != digest.PREFIX + member.name.removeprefix(_BLOBS):
                _bad(f"{member.name} has the digest {value}")
            found.add(value)
    return found


def _documents(image: Image, archive: tarfile.TarFile, blobs: set[Digest]) -> list[str]:
    """The names of the layers, bottom first, after the documents were found to lead from the image's digest to them."""
    manifest = _read(archive, _name(image.digest))
    names = [layer.digest for layer in image.layers]
    document = canonical.loads(manifest, name="manifest")
    if canonical.dumps(document) != manifest:
        _bad("the manifest is not in canonical form")
    if document["mediaType"] != oci.MANIFEST:
        _bad("the manifest is of another media type")
    config = canonical.loads(_read(archive, _name(image.docker_id)), name="config")
    said = [layer["digest"] for layer in document["layers"]]
    if document["config"]["digest"] != image.docker_id or said != names or config["rootfs"]["diff_ids"] != names:
        _bad("the manifest, the config and the layers do not belong together")
    if config["architecture"] != ARCHITECTURE:
        _bad(f"it is for {config['architecture']}")
    others = documents(manifest, image.docker_id, image.layers)
    for name, data in others.items():
        if _read(archive, name) != data:
            _bad(f"{name} names something else")
    if extra := blobs - {image.digest, image.docker_id, *names}:
        _bad(f"the archive holds {min(extra)}, which nothing names")
    if more := sorted(set(archive.getnames()) - {_name(each) for each in blobs} - set(others)):
        _bad(f"the archive holds {more[0]}, which nothing names")
    return [_name(each) for each in names]


def _compare(archive: tarfile.TarFile, layer: str, root: Path, seen: dict[str, tarfile.TarInfo]) -> None:
    stream = archive.extractfile(layer)
    with tarfile.open(fileobj=stream, mode="r:") as members:
        for member in members:
            seen[member.name] = member
            place = root / member.name
            if member.issym():
                if not place.is_symlink() or str(place.readlink()) != member.linkname:
                    _bad(f"{place} is not the link that the archive has")
                continue
            if place.is_symlink() or member.isdir() != place.is_dir() or member.isfile() != place.is_file():
                _bad(f"{place} is not of the kind that the archive has")
            if place.stat().st_mode & 0o7777 != member.mode:
                _bad(f"{place} has the mode {place.stat().st_mode & 0o7777:04o}, not {member.mode:04o}")
            content = members.extractfile(member) if member.isfile() else None
            if content is not None and digest.of_stream(content) != digest.of_file(place):
                _bad(f"{place} has other bytes than the archive")


def _nothing_else(root: Path, expected: set[str]) -> None:
    for place, folders, names in os.walk(root):
        for name in sorted([*folders, *names]):
            path = (Path(place) / name).relative_to(root).as_posix()
            if path not in expected:
                _bad(f"{root / path} is not in the archive")


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    if stream is None:
        _bad(f"{name} is not a file")
    return stream.read()


def _name(found: Digest) -> str:
    return _BLOBS + digest.hex_of(found)


def _bad(why: str) -> NoReturn:
    advice = "Build it again: `farm image build --again`."
    raise FarmError(Code.IMAGE_INVALID, "the image is not what its digest says", why, advice)
