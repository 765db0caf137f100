"""Package files by their pins: from the content store, else through apt and pip by name and version.

Nothing is ever resolved again: a file with another digest, or none, is an error that names the pin.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from containers.image import clients
from containers.image.clients import Apt
from containers.image.pins import Pin
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.store import ContentStore

Tell = Callable[[str], None]
"""Is told what is done now, a line of text."""


def silent(text: str) -> None:
    """A `Tell` that keeps it."""
    del text


def fetch(pins: Iterable[Pin], store: ContentStore, tell: Tell = silent) -> None:
    """Bring every pin's file into the store. Raises `FarmError` PIN_GONE, PACKAGES_UNREACHABLE, TOOL_MISSING."""
    missing = [pin for pin in pins if not store.has(pin.digest)]
    debs = [pin for pin in missing if pin.kind == "deb"]
    with tempfile.TemporaryDirectory(prefix="farm-image-") as name:
        folder = Path(name)
        if debs:
            tell(f"downloading {len(debs)} Debian packages")
            _fetch_debs(debs, folder, store)
        for pin in (pin for pin in missing if pin.kind == "wheel"):
            tell(f"downloading {pin}")
            said = clients.pip(folder, "download", "--require-hashes", "-r", wanted(pin, folder), wheel=pin.file)
            _take(pin, folder / pin.file, store, said)


def _fetch_debs(pins: Iterable[Pin], folder: Path, store: ContentStore) -> None:
    apt = Apt(folder)
    apt.download(*(_named(pin) for pin in pins))
    for pin in pins:
        said = ""
        if not (folder / pin.file).is_file():  # apt gives nothing at all when it lacks one of several
            said = apt.download(_named(pin))
        _take(pin, folder / pin.file, store, said)


def _named(pin: Pin) -> str:
    return f"{pin.name}={pin.version}"


def wanted(pin: Pin, folder: Path) -> str:
    """A requirements file of this one wheel."""
    path = folder / "wanted.txt"
    path.write_text(f"{pin.name}=={pin.version} --hash={pin.digest}\n", encoding="ascii")
    return str(path)


def _take(pin: Pin, path: Path, store: ContentStore, said: str) -> None:
    if not path.is_file():
        raise _gone(pin, said)
    found, size = digest.of_file(path), path.stat().st_size
    if (found, size) != (pin.digest, pin.size):
        raise _gone(pin, f"another file is served: {found}, {size} bytes")
    store.put_file(path)
    path.unlink()


def _gone(pin: Pin, said: str) -> FarmError:
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "the client gave no file")
    detail = {"pin": pin.name, "version": pin.version, "file": pin.file}
    if any(sign in said for sign in clients.UNREACHABLE):
        advice = "Run the command again with a network, or copy the content store of a machine that has the file."
        return FarmError(Code.PACKAGES_UNREACHABLE, f"{pin} cannot be downloaded", last, advice, detail)
    advice = "Take the file from a content store that has it, or see what is served now: `farm pins check`."
    return FarmError(Code.PIN_GONE, f"the pin {pin} is no longer served", last, advice, detail)
