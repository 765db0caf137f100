"""C libraries of other machines and other years, from the archive that the system's apt knows; nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from toolchains import emulator

SUITES = ("buster", "bullseye", "bookworm", "trixie", "forky", "sid")
"""Old to new. Not all are served for every machine, and the oldest move away in time."""
ARCHITECTURES = {"aarch64": "arm64", "armv7": "armhf", "riscv64": "riscv64", "x86-64": "amd64"}
"""Debian's names; it has no Hexagon."""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PACKAGES = ("libc6", "libgcc-s1")


class NotServedError(Exception):
    """The archive has no such suite for the machine, or cannot be reached."""


@cache
def archive() -> str:
    """Address of Debian's archive as the system's apt has it."""
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"]
    try:
        said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except OSError as reason:
        raise NotServedError(f"no apt: {reason.strerror}") from reason
    for line in said.splitlines():
        origin, _, address = line.partition(" ")
        if origin == "Debian" and "security" not in address:
            return address.rstrip("/")
    raise NotServedError("apt knows no archive of Debian here")


def oldest_and_newest(machine: str) -> tuple[Path, ...]:
    """Root folders of the oldest and the newest suite that are served for a machine (one where there is only one)."""
    found = []
    for suites in (SUITES, SUITES[::-1]):
        for suite in suites:
            try:
                found.append(root(machine, suite))
                break
            except NotServedError:
                continue
    if not found:
        raise NotServedError(f"no suite is served for {machine}")
    return tuple(dict.fromkeys(found))


@cache
def root(machine: str, suite: str) -> Path:
    """A folder with the suite's C library for a machine, fetched once and kept in build/."""
    architecture = ARCHITECTURES[machine]
    place = emulator.tools_dir().parent / "rootfs" / f"{suite}-{architecture}"
    if place.is_dir():
        return place
    work = place.with_name(f".{place.name}")
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "root"):
        (work / folder).mkdir(parents=True)
    (work / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {archive()} {suite} main\n")
    settings = {
        "Dir::Etc::SourceList": work / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": work / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": work / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "1",
    }
    options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
    for command in (["update"], ["download", *_PACKAGES]):
        done = subprocess.run(["apt-get", *options, *command], cwd=work, capture_output=True, text=True, check=False)
        if done.returncode or not (command == ["update"] or any(work.glob("*.deb"))):
            raise NotServedError(f"{suite} for {architecture}: {done.stderr.strip()[-200:]}")
    for package in sorted(work.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, work / "root"], check=True)
    for name in ("lib", "lib64"):  # newer suites have both in usr alone
        if not (work / "root" / name).exists() and (work / "root" / "usr" / name).is_dir():
            (work / "root" / name).symlink_to(f"usr/{name}")
    (work / "root").rename(place)
    shutil.rmtree(work)
    return place
