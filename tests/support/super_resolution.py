"""Small networks of the architectures that `make bench-models` writes, with seeded weights: ESPCN, SRVGG and RRDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from tests.support.graphs import Weights, save

node = helper.make_node
HEIGHT, WIDTH = 7, 19


class _Net:
    """Nodes and weights under construction; every method gives the name of its result."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[Any] = []
        self.weights: Weights = {}
        self._draw = np.random.Generator(np.random.PCG64(seed))

    def add(self, operator: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(operator, list(inputs), [name], **attrs))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = (scale * self._draw.standard_normal(shape)).astype(np.float32)
        return name

    def constant(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, np.float32)
        return name

    def conv(self, x: str, depth: int, channels: int, kernel: int = 3) -> str:
        weight = self.weight(channels, depth, kernel, kernel, scale=(depth * kernel * kernel) ** -0.5)
        return self.add("Conv", x, weight, self.weight(channels, scale=0.1), pads=[kernel // 2] * 4)

    def save(self, path: Path, result: str, scale: int) -> Path:
        self.nodes.append(node("Identity", [result], ["y"]))
        return save(
            path, self.nodes, [1, 3, HEIGHT, WIDTH], [1, 3, scale * HEIGHT, scale * WIDTH], self.weights
        )  # fmt: skip


def espcn(path: Path) -> Path:
    """Convolutions with tanh between, and a pixel shuffle by 3."""
    net = _Net(1)
    x = net.add("Tanh", net.conv("x", 3, 20, 5))
    x = net.add("Tanh", net.conv(x, 20, 12))
    return net.save(path, net.add("DepthToSpace", net.conv(x, 12, 27), blocksize=3, mode="CRD"), 3)


def srvgg(path: Path) -> Path:
    """Convolutions with a PRelu by channels between, a pixel shuffle by 4, and the image itself added four times as
    large."""
    net = _Net(2)
    x, depth = "x", 3
    for _ in range(3):
        x = net.add("PRelu", net.conv(x, depth, 20), net.weight(20, 1, 1, scale=0.25))
        depth = 20
    x = net.add("DepthToSpace", net.conv(x, 20, 48), blocksize=4, mode="CRD")
    return net.save(path, net.add("Add", x, _larger(net, "x", 4)), 4)


def rrdb(path: Path) -> Path:
    """A dense block with LeakyRelu, residuals scaled by a fifth, and two convolutions of an image twice as large."""
    net = _Net(3)
    first = net.conv("x", 3, 16)
    found = [first]
    for number in range(4):
        joined = net.add("Concat", *found, axis=1) if number else first
        found.append(net.add("LeakyRelu", net.conv(joined, 16 + 8 * number, 8), alpha=0.2))
    x = net.conv(net.add("Concat", *found, axis=1), 48, 16)
    x = net.add("Add", net.add("Mul", x, net.constant(0.2)), first)
    x = net.add("LeakyRelu", net.conv(_larger(net, x, 2), 16, 16), alpha=0.2)
    return net.save(path, net.conv(x, 16, 3), 2)


def split_gates(path: Path) -> Path:
    """A convolution in three parts along its channels, of which one gates another and the third is added: C07."""
    net = _Net(4)
    x = net.conv("x", 3, 9)
    net.nodes.append(node("Split", [x, "lengths"], ["p", "q", "r"], axis=1))
    net.weights["lengths"] = np.array([3, 3, 3], np.int64)
    return net.save(path, net.add("Add", net.add("Mul", "p", net.add("Sigmoid", "q")), "r"), 1)


def _larger(net: _Net, x: str, scale: int) -> str:
    sizes = net.constant([1, 1, scale, scale])
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return net.add("Resize", x, "", sizes, **how)


NETS: Mapping[str, Callable[[Path], Path]] = {"espcn": espcn, "srvgg": srvgg, "rrdb": rrdb, "split-gates": split_gates}
EXPORTED = {"espcn_x3": (48, 70), "srvgg_x4": (24, 40), "rrdb_small_x2": (20, 33)}
"""Of those that `make bench-models` writes: a height and a width to compile them for in a test."""


def image(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Seeded noise."""
    return np.random.Generator(np.random.PCG64(9)).standard_normal((1, 3, height, width)).astype(np.float32)
