"""ESPCN, SRVGG and RRDB from the ONNX file to what the kernels answer, beside onnxruntime and the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm import reference_child
from kernelc import frontend, fusion
from kernelc.graph import Graph
from kernelc.numerics import reference
from tests.support import super_resolution
from tests.support.kernel_runs import agree, compile_graph, targets, thirds
from tests.support.models import CACHE
from tests.support.super_resolution import EXPORTED, NETS


def loaded(name: str, folder: Path) -> tuple[Path, Graph]:
    path = NETS[name](folder / "model.onnx")
    return path, frontend.simplify(frontend.load(path, {}))


def onnxruntime_says(path: Path, value: np.ndarray) -> np.ndarray:
    session = reference_child.session(path, {"x": value.shape}, optimised=False)
    found: np.ndarray = session.run(["y"], {"x": value})[0]
    return found


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("net", NETS)
def test_a_small_network_agrees_with_onnxruntime_and_the_reference(net: str, name: str, tmp_path: Path) -> None:
    (path, graph), value = loaded(net, tmp_path), super_resolution.image()
    compiled = compile_graph(graph, name, tmp_path / "built")

    (found,) = compiled.run([value])

    agree(found, onnxruntime_says(path, value))
    agree(found, reference.evaluate(graph, {"x": value})["y"])
    assert compiled.run([value], thirds)[0].tobytes() == found.tobytes()


@pytest.mark.parametrize(
    ("net", "groups"),
    [
        ("espcn", ["conv tanh", "conv tanh", "conv", "rearrange"]),
        ("srvgg", ["conv prelu", "conv prelu", "conv prelu", "conv", "rearrange", "resize add"]),
        ("split-gates", ["conv", "rearrange", "rearrange", "rearrange", "sigmoid mul add"]),
    ],
)
def test_activations_are_computed_where_their_convolution_is(net: str, groups: list[str], tmp_path: Path) -> None:
    _, graph = loaded(net, tmp_path)
    assert [" ".join(node.op for node in group.nodes) for group in fusion.group(graph).groups] == groups


def test_every_leaky_relu_is_computed_where_its_convolution_is(tmp_path: Path) -> None:
    _, graph = loaded("rrdb", tmp_path)
    found = [[node.op for node in group.nodes] for group in fusion.group(graph).groups]
    assert found.count(["conv", "leaky_relu"]) == 5
    assert sum(ops.count("leaky_relu") for ops in found) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("model", EXPORTED)
def test_an_exported_network_agrees_with_onnxruntime(model: str, name: str, tmp_path: Path) -> None:
    path = CACHE / f"{model}.onnx"
    if not path.is_file():
        pytest.skip(f"{path.name} is not there: `make bench-models` writes it")
    value = super_resolution.image(*EXPORTED[model])
    graph = frontend.simplify(frontend.load(path, {"": value.shape}))

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    agree(found, onnxruntime_says(path, value))
