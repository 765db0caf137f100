"""Our engine as a benchmark's server, in the farm's own environment: the runtime library of a payload.

`more` of a load holds "library", "layout" and "target" as `farm.native` prepares them, "probe" (`farm.peak`), and
"slower", by how much each run is drawn out (0.1: a tenth) to try the regression gate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import serving
from serving import Load, Loaded

from farm.engine import Engine
from farm.peak import Probe


def load(wanted: Load) -> Loaded:
    """An engine over the payload, bound to the inputs given."""
    more = wanted.more
    engine = Engine(Path(more["library"]), Path(more["layout"]), more["target"], wanted.threads)
    outputs = {name: np.full(shape, np.nan, np.float32) for name, shape in wanted.outputs.items()}
    run = engine.bind(wanted.inputs, outputs)
    probe = Probe(Path(more["probe"]))
    return Loaded(
        "kernel-farm",
        slower(run, more["slower"]) if more.get("slower") else run,
        lambda: list(outputs.values()),
        {"peak": lambda _: {"gflops": probe.gflops()}},
    )


def slower(run: Callable[[], object], share: float) -> Callable[[], object]:
    """The same, and after it as much more of its CPU time as `share` says."""

    def drawn_out() -> None:
        began = time.process_time_ns()
        run()
        took = time.process_time_ns() - began
        while time.process_time_ns() - began < took * (1 + share):
            pass

    return drawn_out


if __name__ == "__main__":
    serving.main(load)
