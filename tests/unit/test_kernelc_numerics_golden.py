"""Golden vectors: seeded inputs by a generator that is written out, answers that no CPU feature changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelc import frontend
from kernelc.media.builder import GraphBuilder
from kernelc.numerics import golden, seeded
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from tests.support import graphs


def test_the_generator_is_splitmix64() -> None:
    # The first numbers of splitmix64 from 0 are e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f.
    expected = [(top - (1 << 23)) / (1 << 23) for top in (0xE220A8, 0x6E789E, 0x06C45D)]

    assert seeded.uniform(0, 3).tolist() == expected
    assert seeded.uniform((1 << 64) - 1, 2).dtype == np.float32


def test_values_are_even_in_their_range() -> None:
    found = seeded.uniform(1 << 32, 100_000)

    assert -1 <= found.min() < -0.9999 and 0.9999 < found.max() < 1
    assert abs(float(found.mean())) < 0.01


def test_each_case_has_the_answer_of_the_graph_for_its_seeds() -> None:
    build = GraphBuilder()
    x, y = (build.input(name, "f32", (1, 4)) for name in "xy")
    graph = build.finish([("z", build.node("add", [x, y], {}))])

    found = golden.golden_of(graph)

    assert (found.inputs, found.outputs) == ((16, 16), (16,))
    assert [case.seeds for case in found.cases] == [(0, 1), (1 << 32, 1 << 32 | 1)]
    for case in found.cases:
        first, second = (seeded.uniform(seed, 4).astype(np.float64) for seed in case.seeds)
        assert case.outputs == ((first + second).astype("<f4").tobytes(),)


def test_a_graph_over_integers_has_none() -> None:
    build = GraphBuilder()
    graph = build.finish([("y", build.node("identity", [build.input("x", "i64", (2,))], {}))])

    with pytest.raises(FarmError) as caught:
        golden.golden_of(graph)
    assert caught.value.code is Code.DTYPE_UNSUPPORTED


DIGEST = """
import sys
from pathlib import Path
from kernelc import frontend
from kernelc.numerics.golden import golden_of
from kernelfarm import digest
print(digest.of_bytes(golden_of(frontend.load(Path(sys.argv[1]), {})).to_bytes()))
"""


@pytest.mark.parametrize("disabled", ["", "AVX512_SKX AVX512F", "AVX512_SKX AVX512F AVX2 FMA3"])
def test_the_bytes_are_the_same_on_any_processor(tmp_path: Path, disabled: str) -> None:
    model = graphs.tiny(tmp_path / "tiny.onnx")
    here = digest.of_bytes(golden.golden_of(frontend.load(model, {})).to_bytes())

    elsewhere = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", DIGEST, str(model)],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled},
        capture_output=True,
        text=True,
        check=True,
    )

    assert elsewhere.stdout.strip() == here
