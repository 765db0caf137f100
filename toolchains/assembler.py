"""Which instructions an assembler refuses for a target.

Hexagon's disassembler goes by the version that a file claims; its assembler takes only what the named CPU has.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelfarm.errors import Code, FarmError
from toolchains import zig
from toolchains.machines import MACHINES
from toolchains.process import run_tool
from toolchains.target import Target

_REFUSED = re.compile(r"^forms\.s:(\d+):\d+: error: (.*)$", re.MULTILINE)
_CONTEXT = re.compile(r"`\.new'|^New value register")
"""Complaints about an instruction that the assembler knows, but that Hexagon has only beside another one."""
_PLACE = re.compile(r"\s*<[^>]*>$")


def foreign(target: Target, forms: Sequence[tuple[str, int]]) -> list[tuple[int, str]]:
    """(address, why) of each instruction, given as (text, address), that the target's CPU and features do not have."""
    if not forms:
        return []
    with tempfile.TemporaryDirectory(prefix="kf-forms-") as made:
        source = Path(made) / "forms.s"
        source.write_text("".join(_PLACE.sub("", text) + "\n" for text, _ in forms), encoding="utf-8")
        argv = [
            str(zig.zig_path()),
            "clang",
            "-target",
            target.triple,
            f"{MACHINES[target.machine].cpu_flag}{target.cpu.name}",
            "-c",
            source.name,
        ]
        argv += ["-ferror-limit=0", "-o", "forms.o"]
        try:
            run_tool(argv, cwd=source.parent, what="assembling forms of instruction")
        except FarmError as reason:
            refused = _REFUSED.findall(reason.detail.get("stderr", ""))
            if reason.code is not Code.TOOL_FAILED or not refused:
                raise
            found = [(forms[int(line) - 1], why) for line, why in refused if not _CONTEXT.search(why)]
            return [(address, f"{text}: {why}") for (text, address), why in found]
    return []
