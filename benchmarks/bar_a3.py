"""`make bar-A3`: issue A3's bar, measured: the sealed farm. Prints it and writes build/bar/A3.json.

    python -m benchmarks.bar_a3 [NAME...]      only these lines; the file names the others

Exits 1 when a line does not hold. It needs what `make integration` needs; nothing counts that was skipped. Lines that
tests prove are their counts, each of at least as many tests as the bar names.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import bar
from benchmarks import image as image_figures
from benchmarks.bar import Line
from benchmarks.tests_ran import Ran, counted, ran
from containers import image as compile_image
from containers.docker import DockerRunner
from containers.image import Image
from tests.support import docker_engine, models

CHAOS = (
    "tests/chaos/test_queue_losses.py",
    "tests/chaos/test_queue_stops.py",
    "tests/integration/test_farm_sealed_chaos.py",
    "tests/integration/test_sandbox_orphans.py",
)
HOSTILE = ("tests/integration/test_gate_hostile_workers.py",)
ATTACKS = ("tests/integration/test_sandbox_attacks.py",)
MATRIX = ("tests/integration/test_farm_sealed_matrix.py",)
IMAGE = "tests/integration/test_containers_image.py::"
BUILDS = (
    IMAGE + "test_a_build_with_an_empty_store_is_the_same",
    IMAGE + "test_a_build_in_another_time_zone_with_the_lock_backwards_is_the_same",
    IMAGE + "test_docker_gives_it_the_id_that_was_foretold",
)
KINDS: Mapping[str, Sequence[str]] = {
    "network": ("no_network", "abstract_socket"),
    "write outside /out": ("nothing_but_the_output", "paths_that_lead_out"),
    "device node": ("no_device",),
    "ptrace": ("traced",),
    "fork bomb": ("fork_bomb",),
    "100 GB file": ("100_gb",),
    "memory": ("memory_of_one", "memory_of_all"),
    "symlink": ("link]",),
    "hard link": ("hard-link",),
    "setuid": ("setuid",),
    "FIFO": ("fifo",),
    "1 GB log": ("log_of_1_gb",),
    "environment and secrets": ("environment_and_secrets",),
}
"""The attacks that the bar names -> parts of the names of their tests."""
LOSSES: Mapping[str, Sequence[str]] = {
    "kill -9 of a worker": ("kill_9_of_a_worker",),
    "kill -9 of Redis": ("kill_9_of_redis",),
    "kill -9 of dockerd": ("kill_9_of_the_engine",),
    "FLUSHALL with 20 queued": ("with_20_queued",),
    "SIGTERM to the group": ("sigterm_to_the_group",),
    "cancel with no worker up": ("cancelled_while_no_worker",),
}
LIES: Mapping[str, Sequence[str]] = {
    "wrong digest": ("digest",),
    "someone else's lease": ("lease",),
    "stale fencing number": ("fencing",),
    "oversize blob": ("large", "oversize", "size"),
    "unknown identity": ("identity", "certificate", "unknown"),
}
LARGEST = 700_000_000


def matrix() -> Iterator[Line]:
    """Two workers in containers, and the same cells through the other runners without a broker."""
    found = ran(MATRIX)
    asked = "one container per cell, equal payloads"
    for name, word in (
        ("4 models x 6 targets in Docker by two workers", "one_container"),
        ("the same from an embedded run in bare processes", "bare_processes_without_a_broker"),
        ("the same from a rebuild in bubblewrap", "second_worker_in_bubblewrap"),
    ):
        holds = found.covers([word])
        figure = "24 of 24 cells" if holds else "see the detail"
        yield Line(name, figure, asked, holds, None if holds else found.said, found.lacking)
    yield Line(
        "the workers stop when told to",
        f"{found.seconds:.0f} s in all",
        "exit 0",
        found.all_passed,
        lacking=found.lacking,
    )


def image() -> Iterator[Line]:
    """Builds of the image: with an empty store, in another time zone with the lock backwards; what Docker calls it."""
    found = ran(BUILDS)
    holds = found.all_passed and found.passed == len(BUILDS)
    figure = f"{found.passed} of {len(BUILDS)} agree"
    asked = "cold cache, other zone and order, Docker's ID"
    yield Line(
        "digest of the image from three builds", figure, asked, holds, found.ends | {"said": found.said}, found.lacking
    )


def edit() -> Iterator[Line]:
    """The size of the image; from an edit of a compiler file to the end of a first compile in each sandbox."""
    built = compile_image.ensure(image_figures.SHARED.create())
    sizes = {layer.name: layer.unpacked for layer in built.layers}
    yield Line("unpacked image", f"{built.unpacked / 1e6:.0f} MB", "<= 700 MB", built.unpacked <= LARGEST, sizes)
    yield _edited("bubblewrap", image_figures.edits(built))
    with docker_engine.running() as engine:

        def in_docker(image: Image, code: Path) -> DockerRunner:
            return DockerRunner(image, code, image_figures.SHARED.root, engine.address)

        yield _edited("docker", image_figures.edits(built, in_docker))


def _edited(sandbox: str, seconds: Mapping[str, Sequence[float]]) -> Line:
    ends = seconds["to_first_compile"]
    median = statistics.median(ends)
    figure = f"{median:.2f} s, median of {len(ends)}"
    return Line(f"edit of the compiler to first compile, {sandbox}", figure, "< 5 s", median < 5.0, seconds)


def attacks() -> Iterator[Line]:
    """The sandbox attacks of the bar, in each sandbox."""
    found = ran(ATTACKS)
    yield from counted(found, "attacks on the sandboxes", KINDS)
    for sandbox in ("docker", "bubblewrap"):
        here = {name: end for name, end in found.ends.items() if sandbox in name.partition("[")[2]}
        held = Ran(here, 0.0, "")
        kinds = sum(held.covers(words) for words in KINDS.values())
        figure = f"{kinds} kinds, {held.passed} of {len(here)} tests"
        holds = kinds == len(KINDS) and held.all_passed
        yield Line(f"attacks held in {sandbox}", figure, f"{len(KINDS)} kinds", holds, here, held.lacking)


def chaos() -> Iterator[Line]:
    """Everything that may be lost under way, with settings under which the sweeps act."""
    yield from counted(ran(CHAOS), "losses that a matrix outlives", LOSSES)


def hostile() -> Iterator[Line]:
    """What hostile workers try at the gate."""
    yield from counted(ran(HOSTILE), "lies of workers that got nothing in", LIES)


def overhead() -> Iterator[Line]:
    """What the farm adds to a cell, beside bare Celery in one run."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.queue_overhead"],
        cwd=models.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        figures: Any = json.loads(done.stdout)
    except ValueError:
        yield Line("overhead of a cell", "it did not end well", "< 50 ms, < 1 s", False, done.stdout + done.stderr)
        return
    bare = f"bare Celery {figures['celery_round_trip']['median']:.0f} ms"
    cached, executed = figures["cached_cell"]["mean"], figures["executed_cell"]["median"]
    yield Line("overhead of a cached cell", f"{cached:.1f} ms; {bare}", "< 50 ms", cached < 50, figures)
    yield Line("overhead of an executed cell", f"{executed:.0f} ms; {bare}", "< 1000 ms", executed < 1000, figures)


MEASURES: Mapping[str, Callable[[], Iterator[Line]]] = {
    "overhead": overhead,
    "edit": edit,
    "image": image,
    "attacks": attacks,
    "hostile": hostile,
    "chaos": chaos,
    "matrix": matrix,
}


def main(words: list[str]) -> int:
    """Measure the named lines, or all."""
    return bar.measure("A3", bar.options("A3", __doc__, list(MEASURES), words).lines, MEASURES)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
