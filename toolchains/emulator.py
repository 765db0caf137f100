"""How code of a target is run here: on this processor, in qemu's user mode, or not at all, and why."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernelfarm.errors import Code, FarmError
from toolchains.target import Target

_CPUINFO = {"sse3": "pni", "lzcnt": "abm"}
"""Linux's names where they are not the feature's own."""
_MACHINES = {"aarch64": "aarch64", "riscv64": "riscv64", "x86_64": "x86-64"}
"""Names of machines in `toolchains.machines` by the kernel's."""


class Kind(StrEnum):
    """Where a program of the target runs."""

    NATIVE = "native"
    EMULATED = "emulated"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Runner:
    """`argv_prefix` goes before a program and its arguments; `reason` says why it is no native run, "" for one."""

    argv_prefix: tuple[str, ...]
    kind: Kind
    reason: str


def tools_dir() -> Path:
    """Where `make tools` unpacks qemu and llvm-objdump 19: build/tools beside the rooms. It need not exist."""
    return Path(__file__).parent.parent / "build" / "tools"


def find(program: str, inside: str = "usr/bin") -> Path | None:
    """A program that `make tools` unpacked below `inside`, else the system's; None where there is neither."""
    unpacked = tools_dir() / inside / program
    if unpacked.is_file():
        return unpacked
    installed = shutil.which(program, path=f"/{inside}:/usr/local/bin:/usr/bin:/bin")
    return Path(installed) if installed else None


def runner(target: Target, flags: frozenset[str] | None = None) -> Runner:
    """The best way to run a program of the target here; `flags` stands for the features of /proc/cpuinfo in tests."""
    lacking = missing(target, flags)
    if not lacking:
        return Runner((), Kind.NATIVE, "")
    why = f"this processor lacks {', '.join(lacking)}"
    return emulated(target, why)


def emulated(target: Target, why: str = "asked for") -> Runner:
    """The emulator, even where the processor itself could run the program."""
    if not target.run.emulator:
        return Runner((), Kind.UNAVAILABLE, f"{why}, and no emulator knows {target.cpu.name}")
    name, *arguments = target.run.emulator_argv
    path = find(name)
    if path is None:
        return Runner((), Kind.UNAVAILABLE, f"{why}, and {name} is missing: run `make tools`")
    return Runner((str(path), *arguments), Kind.EMULATED, why)


def require(target: Target) -> Runner:
    """The runner; raises `FarmError` NOT_RUNNABLE_HERE (an environment error) where there is none."""
    found = runner(target)
    if found.kind is Kind.UNAVAILABLE:
        raise FarmError(
            Code.NOT_RUNNABLE_HERE,
            f"this machine cannot run {target.name}",
            found.reason,
            "Run `make tools`, or use such a machine.",
            {"target": target.name},
        )
    return found


def missing(target: Target, flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """Features that the target requires and this processor lacks; another machine counts as one missing feature."""
    if _MACHINES.get(platform.machine()) != target.machine:
        return (f"everything of {target.machine}",)
    present = _flags() if flags is None else flags
    return tuple(name for name in target.cpu.required if _CPUINFO.get(name, name.replace(".", "_")) not in present)


def _flags() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def libraries() -> dict[str, str]:
    """Environment in which programs from `tools_dir` find the libraries that were unpacked with them."""
    folders = [tools_dir() / part for part in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")]
    found = ":".join(str(folder) for folder in folders if folder.is_dir())
    return {"LD_LIBRARY_PATH": found} if found else {}
