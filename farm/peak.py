"""Builds the probe that measures a core's FMA peak: peak.c, by the pinned compiler, for the CPU of a target."""

from __future__ import annotations

from pathlib import Path

from toolchains import zig
from toolchains.machines import MACHINES
from toolchains.target import Target

SOURCE = Path(__file__).with_name("peak.c")
_EXPORTS = "{ global: kf_peak; local: *; };\n"


def build_probe(target: Target, folder: Path) -> Path:
    """The probe as a shared object in `folder`; raises `FarmError` TOOL_FAILED and its kin."""
    made, linked = folder / "peak.o", folder / "peak.so"
    zig.compile_c(SOURCE, made, target)
    zig.link([made], linked, ["-shared", *MACHINES[target.machine].link], version_script=_EXPORTS)
    return linked
