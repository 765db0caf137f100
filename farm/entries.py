"""Builds the library that times the operations of an entry table: entries.c, by the pinned compiler, for a target."""

from __future__ import annotations

import shutil
from pathlib import Path

from toolchains import runtime_build, zig
from toolchains.machines import MACHINES
from toolchains.target import Target

SOURCE = Path(__file__).with_name("entries.c")
_EXPORTS = "{ global: kf_infer; kf_infer_timed; kf_reading; local: *; };\n"


def build(target: Target, folder: Path) -> Path:
    """The library as a shared object in `folder`; raises `FarmError` TOOL_FAILED and its kin."""
    source, made, linked = folder / SOURCE.name, folder / "entries.o", folder / "entries.so"
    shutil.copyfile(SOURCE, source)
    shutil.copyfile(runtime_build.source_root() / "include" / "kf_abi.h", folder / "kf_abi.h")
    zig.compile_c(source, made, target, extra=("-fno-sanitize=kcfi", "-fno-stack-protector"))
    zig.link([made], linked, ["-shared", *MACHINES[target.machine].link], version_script=_EXPORTS)
    return linked
