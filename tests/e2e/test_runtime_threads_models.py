"""Real payloads on several threads: the bytes of one thread, whatever the number of threads and of ranges."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from farm import native, subject
from farm.engine import Engine
from farm.native import Runnable
from kernelfarm import oci_bundle
from tests.support import device
from tests.support.product import TARGETS, Built
from toolchains import processor, target

THREADS, PARTITIONS = (1, 2, 3, 5, 8), (1, 3, 64)


def payload(built: Built, name: str, folder: Path) -> Runnable:
    """The payload for a target, as a device would run it."""
    if lacking := processor.missing_features(target.load(name)):
        pytest.skip(f"this processor lacks {', '.join(lacking)}")
    view = oci_bundle.read(built.bundle).require()
    return native.runnable(subject.extract(view, subject.payload_of(view, name), folder), built.bundle, name)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("which", ["tiny_bundle", "real_bundle"])
def test_outputs_are_bit_identical_for_any_number_of_threads_and_ranges(
    which: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ready = payload(request.getfixturevalue(which), name, tmp_path / "payload")
    with Engine(ready.library, ready.layout, name) as engine:
        (given,), (taken,) = engine.inputs, engine.outputs
    draw = np.random.Generator(np.random.PCG64(5))
    draw.standard_normal(given.shape).astype("<f4").tofile(tmp_path / "in")
    found = set()

    for threads, partitions in product(THREADS, PARTITIONS):
        words = ["--input", f"{given.name}={tmp_path / 'in'}", "--output", f"{taken.name}={tmp_path / 'out'}"]
        words += ["--threads", str(threads), "--partitions", str(partitions), "--repeat", "20"]
        answer = device.run(ready.program, ready.layout, "--target", name, *words)
        assert answer.returncode == 0, answer.stderr
        found.add((tmp_path / "out").read_bytes())

    assert len(found) == 1
    assert np.isfinite(np.frombuffer(found.pop(), "<f4")).all()


@pytest.mark.parametrize("name", TARGETS)
def test_golden_vectors_hold_on_several_threads(real_bundle: Built, name: str, tmp_path: Path) -> None:
    ready = payload(real_bundle, name, tmp_path / "payload")

    alone = device.run(ready.program, ready.layout, "--target", name, "--self-test")
    shared = device.run(ready.program, ready.layout, "--target", name, "--self-test", "--threads", "3")

    assert (shared.returncode, shared.stdout) == (0, alone.stdout)
