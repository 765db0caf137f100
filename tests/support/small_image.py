"""A root file system with this Python and nothing else, as an image for the sandboxes: seconds to make, no network."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

from kernelfarm import files
from kernelfarm.digest import PREFIX, Digest, of_bytes

_FOLDERS = ("dev", "proc", "sys", "tmp", "in", "out", "etc", "farm/code")
_LEFT_OUT = ("test", "site-packages", "__pycache__", "idlelib", "tkinter", "ensurepip", "config-*", "*.a", "turtledemo")


@dataclass(frozen=True, slots=True)
class SmallImage:
    """As `containers.sealed.Image`."""

    digest: Digest
    docker_id: str
    archive: Path
    rootfs: Path
    python: str


def small_image(build: Path) -> SmallImage:
    """The image, made once under the folder `build`."""
    place = build / f"small-image-{sys.version_info.major}.{sys.version_info.minor}"
    with files.locked(place):
        if not (place / "done").exists():
            shutil.rmtree(place, ignore_errors=True)
            _fill(place / "rootfs")
            (place / "done").write_text(_archive(place / "rootfs", place / "image.tar"))
    identity = (place / "done").read_text()
    return SmallImage(of_bytes(identity.encode()), identity, place / "image.tar", place / "rootfs", _python())


def _python() -> str:
    return str(Path(sys.executable).resolve())


def _fill(root: Path) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    _copy(root, Path(_python()))
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, root / library.relative_to("/"), ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for program in (Path(_python()), *sorted((root / library.relative_to("/") / "lib-dynload").glob("*.so"))):
        for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.splitlines():
            for word in line.split():
                if word.startswith("/"):
                    _copy(root, Path(word))


def _copy(root: Path, path: Path) -> None:
    place = root / path.relative_to("/")
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path.resolve(), place)


def _archive(root: Path, path: Path) -> str:
    """Write what `docker load` takes; the image's ID."""
    layer = path.with_name("layer.tar")
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(root, arcname=".", filter=_plain)
    with layer.open("rb") as stream:
        layer_digest = hashlib.file_digest(stream, "sha256").hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps(
        {
            "architecture": machine,
            "config": {},
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [f"{PREFIX}{layer_digest}"]},
        },
        sort_keys=True,
    ).encode()
    identity = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{identity}.json", "RepoTags": None, "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        tar.add(layer, arcname="layer.tar", filter=_plain)
        for name, data in ((f"{identity}.json", config), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    layer.unlink()
    return f"{PREFIX}{identity}"


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
