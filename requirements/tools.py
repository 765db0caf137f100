"""Emulators and the second disassembler, unpacked into build/tools without root: `python requirements/tools.py`.

The packages of requirements/debian.txt come through apt (package lists of its own in build/, where the system has
none), are held against their SHA-256 and unpacked with dpkg; only the files in KEPT stay. Programs of the same
version that the system has already are left alone. Exit status 3 when something cannot be had.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "debian.txt"
TOOLS = ROOT / "build" / "tools"
STAMP = TOOLS / ".stamp"
KEPT = (
    "usr/bin/qemu-aarch64-static",
    "usr/bin/qemu-arm-static",
    "usr/bin/qemu-hexagon-static",
    "usr/bin/qemu-riscv64-static",
    "usr/bin/qemu-x86_64-static",
    "usr/lib/llvm-19/bin/llvm-objdump",
    "usr/lib/llvm-19/lib/*.so*",
    "usr/lib/x86_64-linux-gnu/*.so*",
    "lib/x86_64-linux-gnu/*.so*",
)
ENVIRONMENT = 3


@dataclass(frozen=True)
class Package:
    """A line of the lock; a `library` may come from the system instead, in any version."""

    name: str
    version: str
    sha256: str
    library: bool


def main() -> None:
    """Make build/tools what the lock says, or leave it as it is when it is that already."""
    wanted = hashlib.sha256(LOCK.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    if STAMP.is_file() and STAMP.read_text(encoding="ascii") == wanted:
        return
    for program in ("apt-get", "dpkg", "dpkg-query"):
        if shutil.which(program) is None:
            fail(f"{program} is missing: emulators and llvm-objdump 19 come from Debian's packages")
    fresh = TOOLS.with_name("tools.new")
    shutil.rmtree(fresh, ignore_errors=True)
    debs = fresh / "debs"
    debs.mkdir(parents=True)
    for package in read_lock():
        if package.library and installed(package.name):
            continue
        run("dpkg", "-x", str(fetch(package, debs)), str(fresh / "all"), what=f"unpacking {package.name}")
    keep(fresh / "all", fresh)
    shutil.rmtree(debs)
    (fresh / ".stamp").write_text(wanted, encoding="ascii")
    shutil.rmtree(TOOLS, ignore_errors=True)
    fresh.rename(TOOLS)
    print(f"build/tools: {', '.join(sorted(path.name for path in (TOOLS / 'usr/bin').iterdir()))}, llvm-objdump 19")


def read_lock() -> list[Package]:
    """The packages of the lock; those after the empty line are libraries."""
    head, _, tail = LOCK.read_text(encoding="ascii").partition("\n\n")
    found = []
    for text, library in ((head, False), (tail, True)):
        lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
        found += [Package(name, version, sha256, library) for name, version, sha256 in lines]
    return found


def installed(name: str) -> bool:
    """Whether the system has the package."""
    argv = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", name]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.startswith("installed")


def fetch(package: Package, folder: Path) -> Path:
    """The package's file in `folder`, with the digest of the lock."""
    if not download(package, folder, ()):
        lists = ROOT / "build" / "apt"
        (lists / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        own = ("-o", f"Dir::State::Lists={lists / 'lists'}", "-o", f"Dir::Cache={lists}", "-o", "Debug::NoLocking=1")
        subprocess.run(["apt-get", *own, "update"], capture_output=True, check=False)
        if not download(package, folder, own):
            fail(
                f"{package.name} {package.version} is no longer served, or there is no network: "
                "pin what is served now in requirements/debian.txt"
            )
    found = next(path for path in sorted(folder.iterdir()) if path.name.startswith(package.name + "_"))
    if hashlib.sha256(found.read_bytes()).hexdigest() != package.sha256:
        fail(f"{found.name} has another SHA-256 than requirements/debian.txt says")
    return found


def download(package: Package, folder: Path, options: tuple[str, ...]) -> bool:
    """Whether apt gave the package."""
    argv = ["apt-get", *options, "-o", "APT::Sandbox::User=root", "download", f"{package.name}={package.version}"]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=False).returncode == 0


def keep(everything: Path, into: Path) -> None:
    """Move the files of KEPT and drop the rest."""
    for pattern in KEPT:
        for path in sorted(everything.glob(pattern)):
            target = into / path.relative_to(everything)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    shutil.rmtree(everything)


def run(*argv: str, what: str) -> None:
    """Run a program or end with what it said."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"{what} failed: {done.stderr.strip()}")


def fail(why: str) -> NoReturn:
    """End with the exit status of a lacking environment."""
    print(f"make tools: {why}", file=sys.stderr)
    raise SystemExit(ENVIRONMENT)


if __name__ == "__main__":
    main()
