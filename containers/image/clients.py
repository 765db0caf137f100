"""apt and pip, the ordinary clients through which packages come, for Debian 12 on amd64 and its Python.

Both work for this platform whatever the machine's own is; a failure is judged by the caller.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from containers.image.pins import PYTHON
from kernelfarm.errors import Code, FarmError

ARCHITECTURE = "amd64"
UNREACHABLE = (
    "Could not resolve",
    "Could not connect",
    "Connection refused",
    "Failed to establish",
    "NameResolutionError",
    "Network is unreachable",
    "Temporary failure",
)
"""What the clients say without a network."""
_SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(36, 16, -1)), "manylinux2014_x86_64")
_ABIS = (f"cp{PYTHON.replace('.', '')}", "abi3", "none")


class Apt:
    """`apt-get` in a folder: with the system's package lists, else with lists of Debian 12 of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._machine = (
            f"APT::Architecture={ARCHITECTURE}",
            f"APT::Architectures={ARCHITECTURE}",
            "APT::Sandbox::User=root",
        )
        self._own: tuple[str, ...] = ()

    def download(self, *packages: str, uris: bool = False) -> str:
        """What was said; `packages` are "name" or "name=version". With `uris` nothing is downloaded but told.

        Raises `FarmError` TOOL_MISSING.
        """
        command = ("download", *(("--print-uris",) if uris else ()), *packages)
        first = self._run(self._machine, command)
        if first.returncode == 0:
            return first.stdout
        if not self._own:
            self._own = self._lists()
        second = self._run((*self._own, *self._machine), command)
        return second.stdout + second.stderr

    def _lists(self) -> tuple[str, ...]:
        lists = self._folder / "apt"
        (lists / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        sources = lists / "sources.list"
        sources.write_text(self._sources(), encoding="utf-8")
        own = (
            f"Dir::State::Lists={lists / 'lists'}",
            f"Dir::Cache={lists}",
            f"Dir::Etc::SourceList={sources}",
            "Dir::Etc::SourceParts=/dev/null",
            "Dir::State::status=/dev/null",
            "Acquire::Languages=none",
            "Debug::NoLocking=1",
        )
        self._run((*own, *self._machine), ("update",))
        return own

    def _sources(self) -> str:
        """Debian 12's suites at the archive that the system's apt knows, whatever suite the system itself is of."""
        found: dict[bool, str] = {}
        asked = self._run((), ("indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"))
        for line in asked.stdout.splitlines():
            origin, _, address = line.partition(" ")
            if origin == "Debian":
                found.setdefault("security" in address, address.rstrip("/"))
        suites = [(name, found.get("security" in name)) for name in _SUITES]
        return "".join(f"deb [signed-by={_KEYRING}] {address} {name} main\n" for name, address in suites if address)

    def _run(self, settings: Iterable[str], command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        options = [part for setting in settings for part in ("-o", setting)]
        return _run(["apt-get", *options, *command], self._folder)


def pip(folder: Path, verb: str, *arguments: str, wheel: str = "") -> str:
    """What `pip` said to `verb` in `folder`. `wheel` is the file name of the only wheel that may be chosen.

    Raises `FarmError` TOOL_MISSING.
    """
    if importlib.util.find_spec("pip") is None:
        advice = "Run the command from an environment that holds pip, such as the one of `make setup`."
        raise FarmError(Code.TOOL_MISSING, "pip is missing", "wheels of the image come through it", advice)
    platforms, abis = _tags(wheel) if wheel else (_PLATFORMS, _ABIS)
    fixed = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check")
    machine = (f"--python-version={PYTHON}", "--implementation=cp")
    tags = (*(f"--platform={name}" for name in platforms), *(f"--abi={name}" for name in abis))
    said = _run([sys.executable, "-m", "pip", verb, *fixed, *machine, *tags, *arguments], folder)
    return said.stdout + said.stderr


def _tags(wheel: str) -> tuple[Sequence[str], Sequence[str]]:
    tags = parse_wheel_filename(wheel)[3]
    return sorted({tag.platform for tag in tags}), sorted({tag.abi for tag in tags})


def _run(argv: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, cwd=folder, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
    except OSError as reason:
        raise FarmError(
            Code.TOOL_MISSING,
            f"{argv[0]} is missing",
            f"packages of the image come through it: {reason.strerror}",
            "Build the image on a Debian or Ubuntu machine, or copy the content store of one that did.",
        ) from reason
