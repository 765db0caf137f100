"""Random graphs of the lowered operators against the dialect's own reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelc.graph import Graph
from kernelc.media.call import Illegal
from kernelc.numerics import reference
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree, compile_graph, targets, thirds

Draw = np.random.Generator


def between(draw: Draw, low: int, high: int) -> int:
    return int(draw.integers(low, high + 1))


def convolution(make: Maker, draw: Draw, x: str, channels: int) -> str:
    depthwise = bool(draw.random() < 0.4)
    kernel = (between(draw, 1, 5), between(draw, 1, 5))
    pads = (between(draw, 0, 2), between(draw, 0, 2), between(draw, 0, 2), between(draw, 0, 2))
    return make.conv(
        x,
        channels if depthwise else between(draw, 1, 50),
        kernel,
        strides=(between(draw, 1, 2), between(draw, 1, 3)),
        dilations=(between(draw, 1, 2), between(draw, 1, 2)),
        pads=pads,
        group=channels if depthwise else 1,
        bias=bool(draw.random() < 0.6),
    )


def transposed_convolution(make: Maker, draw: Draw, x: str, channels: int) -> str:
    depthwise = bool(draw.random() < 0.3)
    return make.conv_transpose(
        x,
        channels if depthwise else between(draw, 1, 40),
        (between(draw, 1, 4), between(draw, 1, 4)),
        strides=(between(draw, 1, 2), between(draw, 1, 3)),
        pads=(between(draw, 0, 1), between(draw, 0, 1), between(draw, 0, 1), between(draw, 0, 1)),
        dilations=(between(draw, 1, 2), between(draw, 1, 2)),
        output_padding=(between(draw, 0, 1), between(draw, 0, 1)),
        group=channels if depthwise else 1,
        bias=bool(draw.random() < 0.6),
    )


def extend(make: Maker, draw: Draw, x: str) -> str:
    """One more operation on the value `x`."""
    channels = make.builder.tensors[x].static_shape[1]
    match between(draw, 0, 17):
        case 15:
            return make.node("prelu", x, make.weight(channels, 1, 1))
        case 16:
            return make.node("leaky_relu", x, alpha=0.25)
        case 17:
            return make.node("tanh", x)
        case 12:
            return make.node("concat", x, make.node("relu", x), axis=between(draw, 1, 3))
        case 13:
            return transposed_convolution(make, draw, x, channels)
        case 14:
            coordinates, mode = ("asymmetric", "nearest") if draw.random() < 0.5 else ("half_pixel", "linear")
            return make.resize(x, mode=mode, coordinates=coordinates, scale_w=(1.0, 2.0, 1.5)[between(draw, 0, 2)])
        case 0 | 1 | 2:
            return convolution(make, draw, x, channels)
        case 3:
            pooled = make.node("global_average_pool", x)
            return make.node("mul", make.node("hard_sigmoid", pooled, alpha=0.2, beta=0.5), x)
        case 4:
            return make.conv(x, between(draw, 1, 50), 1)
        case 5:
            return make.node("relu", x)
        case 6:
            return make.node("hard_swish", x)
        case 7:
            return make.node("sigmoid", x)
        case 8:
            return make.node("mul", make.weight(channels, 1, 1), x)
        case 9:
            return make.node("sub", make.constant(1.5), x)
        case 10:
            return make.node("add", x, make.node("relu", x))
        case _:
            return make.node(
                "max_pool", x, kernel=(2, 3), strides=(1, 2), pads=(1, 1, 0, 1), dilations=(1, 1), ceil_mode=0
            )


def random_graph(seed: int) -> Graph:
    draw = np.random.Generator(np.random.PCG64(seed))
    make = Maker(seed)
    values = [make.input(1, between(draw, 1, 40), between(draw, 1, 9), between(draw, 1, 30))]
    for _ in range(between(draw, 3, 9)):
        x = values[-1] if draw.random() < 0.8 else values[between(draw, 0, len(values) - 1)]
        try:
            values.append(extend(make, draw, x))
        except Illegal:  # a window that does not fit: the graph does without it
            continue
    return make.finish(*dict.fromkeys([values[-1], values[len(values) // 2]]))


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("seed", range(8))
def test_random_graph_agrees_with_the_reference(seed: int, name: str, tmp_path: Path) -> None:
    graph = random_graph(seed)
    shape = graph.tensors[graph.inputs[0].tensor].static_shape
    value = np.random.Generator(np.random.PCG64(seed + 1)).standard_normal(shape).astype(np.float32)
    compiled = compile_graph(graph, name, tmp_path)

    found = compiled.run([value])

    expected = reference.evaluate(graph, {"x0": value})
    for port, got in zip(graph.outputs, found, strict=True):
        agree(got, expected[port.name])
    assert [item.tobytes() for item in compiled.run([value], thirds)] == [item.tobytes() for item in found]
