"""The probe that measures a core's FMA peak: peak.c, by the pinned compiler, for the CPU of a target."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from toolchains import zig
from toolchains.machines import MACHINES
from toolchains.target import Target

SOURCE = Path(__file__).with_name("peak.c")
_EXPORTS = "{ global: kf_peak; local: *; };\n"
PROBE_ITERATIONS = 50_000
PROBES = 8


def build_probe(target: Target, folder: Path) -> Path:
    """The probe as a shared object in `folder`; raises `FarmError` TOOL_FAILED and its kin."""
    made, linked = folder / "peak.o", folder / "peak.so"
    zig.compile_c(SOURCE, made, target)
    zig.link([made], linked, ["-shared", *MACHINES[target.machine].link], version_script=_EXPORTS)
    return linked


class Probe:
    """The FMA loop of peak.c as a shared object. Only children that measure load it."""

    def __init__(self, library: Path) -> None:
        self._call = ctypes.CDLL(str(library)).kf_peak
        self._call.restype = ctypes.c_int64
        self._call.argtypes = (ctypes.c_int64, ctypes.c_void_p)
        self._sink = (ctypes.c_float * 16)()

    def gflops(self) -> float:
        """Best of a few runs, in GF/s."""
        best = 0.0
        for _ in range(PROBES):
            began = time.thread_time_ns()
            flop = self._call(PROBE_ITERATIONS, ctypes.addressof(self._sink))
            best = max(best, PROBE_ITERATIONS * flop / max(1, time.thread_time_ns() - began))
        return best
