"""`make bar-A1`: every line of issue A1's bar that has a figure, measured; prints it and writes build/bar/A1.json.

    python -m benchmarks.bar_a1 [NAME...]      only these lines; the file names the others

Exits 1 when a line does not hold. The file carries the digest of the sources that were measured.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import bar, peak_memory
from benchmarks.bar import Line
from farm import config, rebuild
from farm.surroundings import ALL, Variation
from tests.support import flips, models, product
from tests.support.product import TARGETS, Built
from toolchains import gate, processor, target

STATE = models.ROOT / "build" / "bar" / "A1"
REPEATS = 5


Measure = Callable[[Built], Iterator[Line]]


def demo(built: Built) -> Iterator[Line]:
    """The demo from nothing, then again."""
    del built
    yield from demo_lines()


def demo_lines() -> Iterator[Line]:
    """The demo with its state removed and the model at hand, then again; the detail is what it printed."""
    shutil.rmtree(models.ROOT / "build" / "demo", ignore_errors=True)
    for name, asked in (("demo, cold", 300.0), ("demo, again", 10.0)):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, str(models.ROOT / "examples" / "demo.py")], capture_output=True, text=True, check=False
        )
        took = time.monotonic() - began
        holds = done.returncode == 0 and took < asked
        yield Line(name, f"{took:.1f} s, exit {done.returncode}", f"< {asked:.0f} s, exit 0", holds, done.stdout)


def help_time(built: Built) -> Iterator[Line]:
    """The median time of `farm --help`."""
    del built
    times = []
    for _ in range(REPEATS):
        began = time.monotonic()
        subprocess.run([str(Path(sys.executable).with_name("farm")), "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.monotonic() - began)
    median = statistics.median(times)
    yield Line("farm --help", f"{median:.3f} s, median of {REPEATS}", "< 0.3 s", median < 0.3, times)


def memory(built: Built) -> Iterator[Line]:
    """The largest resident set of a compile of the real model and its children, median, for each target."""
    for name in TARGETS:
        sizes = [peak_memory.of_compile(built, name, STATE / "memory") for _ in range(REPEATS)]
        median = statistics.median(sizes)
        figure = f"{median / 2**20:.0f} MiB, median of {REPEATS}"
        yield Line(f"resident set of a compile for {name}", figure, "< 1024 MiB", median < 2**30, sizes)


def numerics(built: Built) -> Iterator[Line]:
    """Ten seeded inputs beside onnxruntime."""
    for name in TARGETS:
        found = built.product.must("check", built.bundle, "-t", name)
        figure = f"{found['max_abs_error']:.3g} over {found['cases']} inputs" if found["ran"] else found["reason"]
        holds = found["holds"] or not found["ran"]
        yield Line(f"max abs error on {name}", figure, "<= 1e-4 + 1e-3 |b|", holds, found)


def speed(built: Built) -> Iterator[Line]:
    """One thread beside onnxruntime in one run, on the widest target that this processor runs."""
    name = next(name for name in reversed(TARGETS) if not processor.missing_features(target.load(name)))
    reports = [built.product.farm("bench", built.bundle, "-t", name).document for _ in range(REPEATS)]
    valid = [report["ratio_best"] for report in reports if report.get("valid")]
    median = statistics.median(valid) if len(valid) == REPEATS else float("inf")
    holds = median <= 2.0
    yield Line(f"time by onnxruntime's on {name}", f"{median:.2f}, median of {REPEATS}", "<= 2.0", holds, reports)


def identity(built: Built) -> Iterator[Line]:
    """Each variation alone and all together, the real model on both targets."""
    os.environ["FARM_HOME"] = str(built.product.home)  # the farm's worker processes read it too
    settings = config.load()
    for asked in (*((variation,) for variation in Variation), ALL):
        report = rebuild.rebuild(settings, rebuild.Question(built.bundle, asked))
        unvaried = sorted({reason for one in report.rebuilt for reason in one.unvaried})
        figure = "same" if report.same else "DIFFERS"
        figure += f" ({'; '.join(unvaried)})" if unvaried else ""
        name = "all together" if asked == ALL else asked[0].value
        yield Line(f"rebuild, {name}", figure, "same payload on both targets", report.same, report.to_json())


def vectors(built: Built) -> Iterator[Line]:
    """Instructions on full-width registers in the linked kernels."""
    inspected = built.product.must("inspect", built.bundle)["targets"]
    for name in TARGETS:
        blob = inspected[name]["files"]["kernels.so"]["digest"].removeprefix("sha256:")
        found = gate.inspect(built.bundle / "blobs" / "sha256" / blob).code
        used = {use.register_class: use.instructions for use in found.vectors}
        wanted = target.load(name).vector.register_class
        count = used.get(wanted, 0)
        yield Line(f"{wanted} instructions for {name}", str(count), "> 0", count > 0, used)


def flipped(built: Built) -> Iterator[Line]:
    """Single-byte flips in each file of the bundle."""
    found = flips.run(built, STATE / "flips")
    figure = f"{found.flips} in {found.files} files, {len(found.missed)} missed"
    holds = not found.missed and found.flips >= 500 and found.least >= 20
    yield Line("changed bytes detected and named", figure, ">= 500, >= 20 each, all", holds, found.missed)


MEASURES: Mapping[str, Measure] = {
    "demo": demo,
    "help": help_time,
    "memory": memory,
    "numerics": numerics,
    "speed": speed,
    "identity": identity,
    "vectors": vectors,
    "flips": flipped,
}


def main(words: list[str]) -> int:
    """Measure the named lines, or all."""
    names = bar.options("A1", __doc__, list(MEASURES), words).lines
    shutil.rmtree(STATE, ignore_errors=True)
    built = product.text_direction(STATE)
    return bar.measure("A1", names, {name: partial(measure, built) for name, measure in MEASURES.items()})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
