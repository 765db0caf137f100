"""What the processor of this machine can run."""

from __future__ import annotations

import os
from pathlib import Path

from kernelfarm.errors import Code, FarmError
from toolchains import features
from toolchains.target import Target

_CPUINFO = {"sse3": "pni", "lzcnt": "abm"}
"""Linux's names where they are not the feature's own."""


def missing_features(wanted: Target, flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """Features that the target requires and this processor lacks, by /proc/cpuinfo or the given `flags`."""
    present = _flags() if flags is None else flags
    return tuple(name for name in wanted.cpu.required if _CPUINFO.get(name, name.replace(".", "_")) not in present)


def runs(wanted: Target) -> bool:
    """Whether this processor runs kernels of a target."""
    return not _lacking(wanted)


def require_runnable(wanted: Target) -> None:
    """Raises `FarmError` NOT_RUNNABLE_HERE naming what this processor lacks."""
    if lacking := _lacking(wanted):
        raise FarmError(
            Code.NOT_RUNNABLE_HERE,
            f"this machine cannot run {wanted.name}",
            f"it lacks {', '.join(lacking)}",
            "Measure on such a machine, or choose another target.",
            {"target": wanted.name, "missing": list(lacking)},
        )


def _lacking(wanted: Target) -> tuple[str, ...]:
    if os.uname().machine != wanted.machine.replace("-", "_") or not features.known(wanted.machine):
        return (f"a {wanted.machine} processor",)
    return missing_features(wanted)


def _flags() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
