"""Small ESPCN, SRVGG and RRDB networks on every machine: hardened, beside the reference, however cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelc import frontend
from kernelc.numerics import reference
from tests.support import emulated, emulated_kernels, super_resolution
from tests.support.kernel_runs import agree
from toolchains import gate


@pytest.mark.parametrize("name", emulated.NAMES)
@pytest.mark.parametrize("net", super_resolution.NETS)
def test_a_small_network_is_hardened_and_agrees_with_the_reference(net: str, name: str, tmp_path: Path) -> None:
    goal, value = emulated.load(name), super_resolution.image()
    graph = frontend.simplify(frontend.load(super_resolution.NETS[net](tmp_path / "model.onnx"), {}))
    built = emulated_kernels.build(graph, goal, tmp_path / "built")

    gate.require(goal, gate.inspect(built.library, built.program.kernels, wide=built.program.layout.wide))
    (found,) = built.run([value])

    agree(found, reference.evaluate(graph, {"x": value})["y"])
    assert built.run([value], partitions=5)[0].tobytes() == found.tobytes()
