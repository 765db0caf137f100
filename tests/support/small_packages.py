"""Small packages and a lock of them, for tests of the image builder that need no network."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import zipfile
from pathlib import Path

from containers.image.pins import Pin, Pins
from kernelfarm import digest
from kernelfarm.store import ContentStore


def wheel(folder: Path, name: str = "tool", files: dict[str, bytes] | None = None) -> Path:
    """A wheel `name` 1.0 with a module, a program, a script and whatever `files` adds."""
    content = {
        f"{name}/__init__.py": b"",
        f"{name}/bin/program": b"#!/bin/sh\n",
        f"{name}/tests/test_it.py": b"assert True\n",
        f"{name}-1.0.data/platlib/{name}/extra.txt": b"extra\n",
        f"{name}-1.0.data/scripts/{name}": b"#!python\n",
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        **(files or {}),
    }
    record = "".join(f"{path},sha256={_base64(data)},{len(data)}\n" for path, data in content.items())
    content[f"{name}-1.0.dist-info/RECORD"] = f"{record}{name}-1.0.dist-info/RECORD,,\n".encode()
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in content.items():
            entry = zipfile.ZipInfo(inside)
            entry.external_attr = (0o100755 if inside.endswith("program") else 0o100644) << 16
            archive.writestr(entry, data)
    return path


def deb(folder: Path, name: str = "small", files: dict[str, tuple[bytes, int]] | None = None) -> Path:
    """A Debian package `name` 1:2.0 of these files (content, mode) and the link /lib/<name>.so."""
    tree = folder / f"{name}-tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1:2.0\nArchitecture: amd64\nMaintainer: nobody\nDescription: small\n"
    (tree / "DEBIAN" / "control").write_text(control)
    for inside, (data, mode) in (files or {f"lib/{name}.so.1": (b"library", 0o644)}).items():
        (tree / inside).parent.mkdir(parents=True, exist_ok=True)
        (tree / inside).write_bytes(data)
        (tree / inside).chmod(mode)
    (tree / "lib").mkdir(exist_ok=True)
    (tree / "lib" / f"{name}.so").symlink_to(f"{name}.so.1")
    path = folder / f"{name}_1%3a2.0_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, path], check=True, capture_output=True)
    return path


def pin(path: Path, *, layer: str = "wheels", keep: tuple[str, ...] = ("*",), drop: tuple[str, ...] = ()) -> Pin:
    """The pin of a package file made here."""
    is_deb = path.suffix == ".deb"
    kind, version = ("deb", "1:2.0") if is_deb else ("wheel", "1.0")
    name = path.name.split("_" if is_deb else "-")[0]
    where = "debs" if is_deb else layer
    return Pin(kind, name, version, path.name, path.stat().st_size, digest.of_file(path), where, keep, drop)


def lock(store: ContentStore, *files: Path) -> Pins:
    """A lock of package files, which the store then holds."""
    for path in files:
        store.put_file(path)
    return Pins(tuple(pin(path) for path in files), ())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
