"""The image from its pins: a root folder, and one archive that Docker loads and OCI tools read.

    pins ─► files from the content store ─► root folder ─► a tar per layer ─► config, manifest, index ─► image.tar

Layers are stored as they are: what a compressor writes depends on its version. Everything is a function of the pins and
of this package's code, so the image's ID is known before any engine saw it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from containers.image import bytecode, standin, tarball, unpack
from containers.image.clients import ARCHITECTURE
from containers.image.fetch import Tell, fetch, silent
from containers.image.pins import LAYERS, PYTHON, Pins
from containers.image.tarball import Entry
from containers.image.unpack import MERGED, SITE, Root
from kernelfarm import canonical, digest, files, oci
from kernelfarm.digest import Digest
from kernelfarm.store import ContentStore

ARCHIVE = "image.tar"
ROOT = "root"
BYTECODE = "bytecode"
DOCUMENT = "image.json"
REPOSITORY = "kernel-farm/compiler"
PYTHON_PATH = "/usr/bin/python3"
MOUNTS = ("dev", "farm/code", "in", "out", "proc", "run", "sys", "tmp", "work")
"""Folders that a sandbox mounts something at."""
USER = "65534:65534"
_EPOCH = "1970-01-01T00:00:00Z"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as it lies in the archive: digest and bytes of its tar, bytes of the files in it, number of them."""

    name: str
    digest: Digest
    size: int
    unpacked: int
    files: int


@dataclass(frozen=True, slots=True)
class Built:
    """What a build made: the manifest's digest, the config's (the ID in Docker's own store), the layers."""

    digest: Digest
    docker_id: Digest
    layers: tuple[Layer, ...]


def build(pins: Pins, store: ContentStore, folder: Path, tell: Tell = silent) -> Built:
    """Make root, image.tar, bytecode and image.json in `folder`, which exists and is empty.

    Raises `FarmError` as `fetch`, PINS_INVALID, and coded errors of the disk.
    """
    fetch(pins.packages, store, tell)
    with files.coded("the image could not be written", folder):
        root = fill(pins, store, folder / ROOT, tell)
        tell("writing the archive")
        layers = {name: entries(root, name) for name in LAYERS}
        with (folder / ARCHIVE).open("w+b") as stream:
            built = write(stream, layers)
        if (folder / ROOT / "usr" / "bin" / f"python{PYTHON}").is_file():
            tell("compiling Python modules")
            bytecode.of_image(folder / ROOT, folder / BYTECODE)
        (folder / DOCUMENT).write_bytes(canonical.encode(built))
    return built


def fill(pins: Pins, store: ContentStore, folder: Path, tell: Tell = silent) -> Root:
    """Unpack what the pins keep into `folder`, which is made."""
    folder.mkdir()
    folder.chmod(0o755)
    root = Root(folder)
    for pin in pins.packages:
        tell(f"unpacking {pin}")
        unpack_one = unpack.unpack_deb if pin.kind == "deb" else unpack.unpack_wheel
        unpack_one(pin, store.open_path(pin.digest), root)
    standin.add(root, pins.stand_ins)
    for name in MERGED:
        if (folder / "usr" / name).is_dir():
            (folder / name).symlink_to(f"usr/{name}")
            root.layers[name] = "debs"
    for path, text in _TEXTS.items():
        root.file("debs", path, text.encode())
    root.link("debs", PYTHON_PATH, f"python{PYTHON}")
    root.link("debs", "usr/bin/sh", "busybox")
    for name in MOUNTS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    _settle(folder)
    return root


def entries(root: Root, layer: str) -> list[Entry]:
    """The members of a layer: its files and links, and the folders on the way; the lowest has the mounts too."""
    names = [path for path, owner in root.layers.items() if owner == layer]
    folders = {str(parent) for name in names for parent in Path(name).parents}
    if layer == LAYERS[0]:
        folders |= {str(place) for name in MOUNTS for place in (Path(name), *Path(name).parents)}
    found = [Entry(name, mode=0o1777 if name == "tmp" else 0o755) for name in folders - {"."}]
    return found + [_entry(name, root.folder / name) for name in names]


def write(stream: BinaryIO, layers: dict[str, list[Entry]]) -> Built:
    """Write the archive: blobs, then the documents of OCI and of `docker load`, each a function of what lies before."""
    made = [_layer(stream, name, members) for name, members in layers.items()]
    config = canonical.dumps(_config(made))
    _blob(stream, config)
    manifest = canonical.dumps(_manifest(config, made))
    _blob(stream, manifest)
    docker_id, found = digest.of_bytes(config), digest.of_bytes(manifest)
    for name, data in documents(manifest, docker_id, made).items():
        _member(stream, name, data)
    stream.write(bytes(2 * tarball.BLOCK))
    return Built(found, docker_id, tuple(made))


def tag(docker_id: Digest) -> str:
    """The name under which Docker shows the image; it only helps people, the digest decides."""
    return f"{REPOSITORY}:{digest.hex_of(docker_id)[:12]}"


def documents(manifest: bytes, docker_id: Digest, layers: Iterable[Layer]) -> dict[str, bytes]:
    """The archive's members beside the blobs."""
    reference = {
        "io.containerd.image.name": f"docker.io/{tag(docker_id)}",
        "org.opencontainers.image.ref.name": "latest",
    }
    descriptor = {**_descriptor(oci.MANIFEST, manifest), "annotations": reference}
    descriptor["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": [descriptor]}
    paths = [_path(layer.digest) for layer in layers]
    docker = [{"Config": _path(docker_id), "RepoTags": [tag(docker_id)], "Layers": paths}]
    return {
        "index.json": canonical.dumps(index),
        "manifest.json": canonical.dumps(docker),
        "oci-layout": oci.LAYOUT_BYTES,
    }


def _layer(stream: BinaryIO, name: str, members: list[Entry]) -> Layer:
    """Write a layer; the block before it names its digest, so it is written last."""
    size = tarball.length(members)
    start = stream.tell()
    stream.write(bytes(tarball.BLOCK))
    found = tarball.write(stream, members)
    stream.write(tarball.pad(size))
    end = stream.tell()
    stream.seek(start)
    stream.write(tarball.header(_path(found), size))
    stream.seek(end)
    contents = [member for member in members if member.source is not None]
    return Layer(name, found, size, sum(member.size for member in contents), len(contents))


def _blob(stream: BinaryIO, data: bytes) -> None:
    _member(stream, _path(digest.of_bytes(data)), data)


def _member(stream: BinaryIO, name: str, data: bytes) -> None:
    stream.write(tarball.header(name, len(data)) + data + tarball.pad(len(data)))


def _path(found: Digest) -> str:
    return f"blobs/sha256/{digest.hex_of(found)}"


def _config(layers: Iterable[Layer]) -> dict[str, Any]:
    environment = ["LC_ALL=C", f"PATH=/usr/bin:/{SITE}/llvm/bin", "TZ=UTC"]
    return {
        "architecture": ARCHITECTURE,
        "config": {"Cmd": [PYTHON_PATH], "Env": environment, "User": USER, "WorkingDir": "/work"},
        "created": _EPOCH,
        "history": [{"created": _EPOCH, "created_by": f"farm image build: {layer.name}"} for layer in layers],
        "os": "linux",
        "rootfs": {"diff_ids": [layer.digest for layer in layers], "type": "layers"},
    }


def _manifest(config: bytes, layers: Iterable[Layer]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": oci.MANIFEST,
        "config": _descriptor(_CONFIG, config),
        "layers": [{"mediaType": _LAYER, "digest": layer.digest, "size": layer.size} for layer in layers],
    }


def _descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest.of_bytes(data), "size": len(data)}


def _entry(name: str, path: Path) -> Entry:
    if path.is_symlink():
        return Entry(name, target=str(path.readlink()))
    return Entry(name, mode=0o755 if path.stat().st_mode & 0o100 else 0o644, source=path)


def _settle(folder: Path) -> None:
    """Give every file and folder the times of the archive, and folders their mode whatever the umask."""
    for place, _folders, names in os.walk(folder, topdown=False):
        for name in names:
            os.utime(Path(place, name), (0, 0), follow_symlinks=False)
        if Path(place).stat().st_mode & 0o7777 != 0o1777:
            Path(place).chmod(0o755)
        os.utime(place, (0, 0))
