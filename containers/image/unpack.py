"""Puts what is kept of a package into a root folder, and notes which layer each path belongs to.

Paths are normal (Debian's /lib is /usr/lib), modes are 0755 or 0644, links are symbolic, nothing is run. Programs and
libraries lose what no loader reads (`containers.image.trim`).
"""

from __future__ import annotations

import csv
import io
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from containers.image.pins import PYTHON, Pin
from containers.image.trim import trimmed
from kernelfarm.errors import Code, FarmError

SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
"""Where Debian's Python looks for packages that are not Debian's."""
MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders of the root that are links into usr/ since Debian 12."""
_ELF = b"\x7fELF"


@dataclass(slots=True)
class Root:
    """A folder that becomes the image's root; `layers` holds the layer of each file and link by its path."""

    folder: Path
    layers: dict[str, str] = field(default_factory=dict)

    def file(self, layer: str, path: str, data: bytes, *, program: bool = False) -> None:
        """Add a file. Raises `FarmError` PINS_INVALID when the path is taken by something else."""
        place = self._place(layer, path)
        if place.is_file() and not place.is_symlink() and place.read_bytes() == data:
            return
        self._require_free(place, path)
        place.write_bytes(data)
        place.chmod(0o755 if program else 0o644)

    def link(self, layer: str, path: str, target: str) -> None:
        """Add a symbolic link. Raises as `file`."""
        place = self._place(layer, path)
        if place.is_symlink() and str(place.readlink()) == target:
            return
        self._require_free(place, path)
        place.symlink_to(target)

    def _place(self, layer: str, path: str) -> Path:
        name = normal(path)
        place = self.folder / name
        around = place.parent.resolve()
        if self.folder.resolve() not in (around, *around.parents):
            raise _conflict(path, "it leads out of the root")
        place.parent.mkdir(parents=True, exist_ok=True)
        self.layers.setdefault(name, layer)
        return place

    def _require_free(self, place: Path, path: str) -> None:
        if place.exists() or place.is_symlink():
            raise _conflict(path, "another package of the lock has a different file of this name")


def normal(path: str) -> str:
    """The path in a root where bin, lib, lib64 and sbin lie below usr. Raises PINS_INVALID for one that leads out."""
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", ".")]
    if not parts or ".." in parts:
        raise _conflict(path, "it is no path inside the root")
    return "/".join(["usr", *parts] if parts[0] in MERGED else parts)


def unpack_deb(pin: Pin, blob: Path, root: Root) -> None:
    """Add what is kept of a Debian package, and its control file where scanners of small images look for it."""
    control = _dpkg("--field", str(blob), pin=pin)
    root.file(pin.layer, f"var/lib/dpkg/status.d/{pin.name}", control)
    data = io.BytesIO(_dpkg("--fsys-tarfile", str(blob), pin=pin))
    try:
        with tarfile.open(fileobj=data) as archive:
            for member in archive:
                name = "" if member.name in (".", "./") else normal(member.name)
                if not name or member.isdir() or not pin.wants(name):
                    continue
                if member.issym():
                    root.link(pin.layer, name, member.linkname)
                    continue
                stream = archive.extractfile(member)  # follows a hard link to its file
                if stream is None:
                    raise _conflict(name, f"{pin} holds something else than files and links")
                _add(root, pin, name, stream.read(), program=bool(member.mode & 0o111))
    except (tarfile.TarError, KeyError) as reason:
        raise _conflict(pin.file, f"the package cannot be read: {reason}") from reason


def unpack_wheel(pin: Pin, blob: Path, root: Root) -> None:
    """Add what is kept of a wheel. Its RECORD stays whole, as an installer writes it: tools are identified by it."""
    try:
        with zipfile.ZipFile(blob) as archive:
            for entry in archive.infolist():
                name = _installed(entry.filename)
                if entry.is_dir() or name is None:
                    continue
                data = archive.read(entry)
                if name.endswith(".dist-info/RECORD"):
                    root.file(pin.layer, f"{SITE}/{name}", _record(data))
                elif pin.wants(name) or name.split("/")[0].endswith(".dist-info"):
                    _add(root, pin, f"{SITE}/{name}", data, program=bool(entry.external_attr >> 16 & 0o111))
    except (zipfile.BadZipFile, ValueError, csv.Error) as reason:
        raise _conflict(pin.file, f"the wheel cannot be read: {reason}") from reason


def _add(root: Root, pin: Pin, path: str, data: bytes, *, program: bool) -> None:
    root.file(pin.layer, path, trimmed(data) if data.startswith(_ELF) else data, program=program)


def _installed(path: str) -> str | None:
    """Where an installer puts a wheel's file, relative to site-packages; None for scripts and data outside of it."""
    parts = path.split("/")
    if parts[0].endswith(".data"):
        return "/".join(parts[2:]) if parts[1] in ("purelib", "platlib") else None
    return path


def _record(data: bytes) -> bytes:
    rows = [(_installed(row[0]), *row[1:]) for row in csv.reader(io.StringIO(data.decode())) if row]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(row for row in rows if row[0] is not None)
    return out.getvalue().encode()


def _dpkg(*arguments: str, pin: Pin) -> bytes:
    try:
        done = subprocess.run(["dpkg-deb", *arguments], capture_output=True, check=False)
    except OSError as reason:
        advice = "Build the image on a Debian or Ubuntu machine."
        raise FarmError(Code.TOOL_MISSING, "dpkg-deb is missing", reason.strerror or "", advice) from reason
    if done.returncode:
        raise _conflict(pin.file, done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def _conflict(path: str, why: str) -> FarmError:
    advice = "Correct the lock of the image, or take the farm's own."
    return FarmError(Code.PINS_INVALID, f"{path} cannot become a part of the image", why, advice)
