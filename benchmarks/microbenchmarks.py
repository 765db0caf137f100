"""The graphs of one operator each that the performance model is fitted on; they and the pinned models have no layer in
common by intent: sizes are chosen to span what a model may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from tests.support import graphs

Shape = Sequence[int]


def write(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name, file) of every graph, written into `folder`."""
    for name, nodes, shape, result, weights in _all():
        drawn = {key: _drawn(size) if isinstance(size, tuple) else np.asarray(size) for key, size in weights.items()}
        yield name, graphs.save(folder / f"{name}.onnx", nodes, shape, result, drawn)


def _drawn(shape: tuple[int, ...]) -> Any:
    draw = np.random.Generator(np.random.PCG64(5))
    return (0.1 * draw.standard_normal(shape)).astype(np.float32)


def _all() -> Iterator[tuple[str, list[Any], Shape, Shape, dict[str, Any]]]:
    yield from _dense()
    yield from _depthwise()
    yield from _products()
    yield from _pools()
    yield from _streams()
    yield from _moves()


def _conv(
    channels: int, filters: int, side: tuple[int, int], kernel: int, stride: int = 1, group: int = 1, then: str = ""
) -> tuple[str, list[Any], Shape, Shape, dict[str, Any]]:
    height, width = side
    pad = kernel // 2
    nodes = [
        helper.make_node(
            "Conv", ["x", "w", "b"], ["c" if then else "y"], pads=[pad] * 4, strides=[stride] * 2, group=group
        )
    ]
    nodes += [helper.make_node(then, ["c"], ["y"])] if then else []
    result = [1, filters, -(-height // stride), -(-width // stride)]
    name = f"conv{kernel}s{stride}g{group}_{channels}x{filters}_{height}x{width}{then}"
    return (
        name,
        nodes,
        [1, channels, height, width],
        result,
        {"w": (filters, channels // group, kernel, kernel), "b": (filters,)},
    )


def _dense() -> Iterator[Any]:
    for channels, filters, height, width in (
        (8, 16, 20, 90), (16, 64, 30, 30), (64, 256, 26, 26), (112, 640, 13, 13), (900, 160, 7, 7), (24, 80, 60, 60),
        (48, 120, 26, 26), (512, 500, 9, 9), (128, 24, 36, 36), (100, 1, 44, 44), (384, 96, 12, 48), (32, 32, 64, 64),
        (200, 40, 15, 15), (12, 6, 50, 50),
    ):  # fmt: skip
        yield _conv(channels, filters, (height, width), 1, then="Relu")
    for channels, filters in ((960, 240), (64, 16), (16, 64), (8, 24), (120, 480), (480, 120), (1280, 1000)):
        yield _conv(channels, filters, (1, 1), 1)
    for channels, filters, height, width, kernel, stride in (
        (16, 16, 52, 52, 3, 1), (64, 64, 30, 30, 3, 1), (256, 256, 14, 14, 3, 1), (384, 384, 8, 8, 3, 1),
        (3, 16, 96, 96, 3, 2), (3, 64, 96, 96, 7, 2), (32, 64, 44, 44, 3, 2), (24, 24, 72, 72, 3, 1),
        (96, 24, 36, 36, 3, 1), (48, 3, 60, 60, 3, 1), (128, 128, 20, 20, 3, 2), (40, 40, 20, 100, 3, 1),
        (16, 32, 33, 33, 5, 1), (64, 8, 50, 50, 9, 1), (3, 32, 128, 128, 3, 1),
    ):  # fmt: skip
        yield _conv(channels, filters, (height, width), kernel, stride, then="HardSigmoid" if channels == 64 else "")


def _depthwise() -> Iterator[Any]:
    for channels, height, width, kernel, stride in (
        (64, 60, 60, 3, 1), (256, 26, 26, 3, 1), (900, 7, 7, 3, 1), (32, 20, 90, 3, 1), (16, 100, 100, 3, 1),
        (64, 100, 100, 3, 2), (256, 26, 26, 3, 2), (16, 90, 90, 3, 2), (128, 30, 30, 5, 1), (640, 14, 14, 5, 1),
        (640, 14, 14, 5, 2), (96, 24, 60, 5, 2), (16, 24, 100, 5, 1), (320, 10, 10, 5, 1), (40, 20, 12, 3, 1),
    ):  # fmt: skip
        yield _conv(channels, channels, (height, width), kernel, stride, channels, "HardSigmoid" if kernel == 5 else "")


def _products() -> Iterator[Any]:
    for length, inner, columns in (
        (1, 1280, 1000),
        (1, 200, 40),
        (40, 120, 120),
        (40, 120, 360),
        (50, 64, 2000),
        (80, 256, 512),
    ):
        shape, result = ([inner], [columns]) if length == 1 else ([length, inner], [length, columns])
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        yield f"gemm_{length}x{inner}x{columns}", nodes, [1, *shape], [1, *result], {"w": (inner, columns)}
    for channels, filters, side, kernel in ((24, 24, 40, 2), (96, 24, 20, 2), (64, 32, 24, 4), (24, 1, 60, 2)):
        pad = (kernel - 2) // 2
        node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[pad] * 4)
        result = [1, filters, 2 * side, 2 * side]
        yield (
            f"transposed{kernel}_{channels}x{filters}_{side}", [node], [1, channels, side, side], result,
            {"w": (channels, filters, kernel, kernel)},
        )  # fmt: skip
    for heads, length, inner in ((8, 40, 15), (16, 20, 32)):
        nodes = [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ]
        yield f"product_{heads}x{length}x{inner}", nodes, [1, heads, length, inner], [1, heads, length, length], {}


def _pools() -> Iterator[Any]:
    for op, channels, side, kernel, stride in (
        ("MaxPool", 64, 60, 3, 2), ("MaxPool", 32, 80, 2, 2), ("MaxPool", 128, 13, 5, 1), ("MaxPool", 96, 13, 13, 1),
        ("AveragePool", 64, 40, 2, 2), ("AveragePool", 48, 30, 3, 1),
    ):  # fmt: skip
        pad = (kernel - 1) // 2 if stride == 1 or kernel == 3 else 0
        node = helper.make_node(op, ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        result = (side + 2 * pad - kernel) // stride + 1
        yield (
            f"{op}{kernel}s{stride}_{channels}x{side}",
            [node],
            [1, channels, side, side],
            [1, channels, result, result],
            {},
        )
    for channels, height, width in ((64, 50, 50), (900, 7, 7), (16, 24, 90), (256, 14, 14), (480, 3, 24)):
        node = helper.make_node("GlobalAveragePool", ["x"], ["y"])
        yield f"average_{channels}_{height}x{width}", [node], [1, channels, height, width], [1, channels, 1, 1], {}
    for shape, axis in (((1, 40, 120), 2), ((1, 40, 2000), 2), ((1, 12), 1), ((1, 8, 40, 40), 3), ((1, 16, 20, 64), 3)):
        node = helper.make_node("Softmax", ["x"], ["y"], axis=axis)
        yield f"softmax_{'x'.join(map(str, shape))}", [node], shape, shape, {}
    for length, channels in ((40, 120), (100, 64), (20, 480)):
        mean = [
            helper.make_node("ReduceMean", ["x"], ["m"], axes=[2]),
            helper.make_node("Sub", ["x", "m"], ["d"]),
            helper.make_node("Pow", ["d", "two"], ["q"]),
            helper.make_node("ReduceMean", ["q"], ["v"], axes=[2]),
            helper.make_node("Add", ["v", "e"], ["ve"]),
            helper.make_node("Sqrt", ["ve"], ["s"]),
            helper.make_node("Div", ["d", "s"], ["y"]),
        ]
        weights = {"two": np.float32(2.0), "e": np.float32(1e-5)}
        yield f"norm_{length}x{channels}", mean, [1, length, channels], [1, length, channels], weights


def _streams() -> Iterator[Any]:
    for op, channels, height, width in (
        ("Relu", 64, 50, 50), ("HardSigmoid", 32, 24, 90), ("Sigmoid", 64, 26, 26), ("Sigmoid", 256, 50, 50),
        ("Relu", 16, 200, 200), ("Sqrt", 48, 30, 30), ("Relu", 480, 7, 7),
    ):  # fmt: skip
        shape = [1, channels, height, width]
        yield f"{op}_{channels}_{height}x{width}", [helper.make_node(op, ["x"], ["y"])], shape, shape, {}
    for op, channels, height, width in (
        ("Add", 64, 50, 50),
        ("Mul", 24, 100, 100),
        ("Add", 320, 13, 13),
        ("Div", 64, 26, 26),
    ):
        shape = [1, channels, height, width]
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[1, 1]),
                 helper.make_node("Sigmoid", ["p"], ["q"]), helper.make_node(op, ["r", "q"], ["y"])]  # fmt: skip
        yield f"two_{op}_{channels}_{height}x{width}", nodes, shape, shape, {}
    for channels, height, width in ((64, 50, 50), (16, 24, 90), (672, 14, 14)):
        shape = [1, channels, height, width]
        nodes = [helper.make_node("GlobalAveragePool", ["x"], ["g"]), helper.make_node("Mul", ["x", "g"], ["y"])]
        yield f"gate_{channels}_{height}x{width}", nodes, shape, shape, {}
    for mode, channels, side, factor in (
        ("nearest", 96, 20, 2),
        ("nearest", 24, 40, 4),
        ("nearest", 256, 13, 2),
        ("linear", 24, 30, 2),
        ("linear", 64, 20, 2),
    ):
        node = helper.make_node(
            "Resize",
            ["x", "", "s"],
            ["y"],
            mode=mode,
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        )
        result = [1, channels, side * factor, side * factor]
        weights = {"s": np.array([1, 1, factor, factor], np.float32)}
        yield f"resize_{mode}{factor}_{channels}x{side}", [node], [1, channels, side, side], result, weights


def _moves() -> Iterator[Any]:
    for channels, side in ((64, 26), (24, 60), (160, 13), (20, 44)):
        nodes = [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Sigmoid", ["r"], ["q"]),
            helper.make_node("Concat", ["r", "q"], ["y"], axis=1),
        ]
        yield f"concat_{channels}x{side}", nodes, [1, channels, side, side], [1, 2 * channels, side, side], {}
    for heads, length, inner in ((8, 40, 15), (8, 15, 40), (32, 24, 24)):
        node = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 1, 3, 2])
        yield f"transpose_{heads}x{length}x{inner}", [node], [1, heads, length, inner], [1, heads, inner, length], {}
    for length, channels in ((40, 120), (40, 360)):
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1])]
        yield f"sequence_{length}x{channels}", nodes, [1, length, channels], [1, channels, length], {}
    for channels, side in ((3, 200), (12, 64), (48, 40)):
        nodes = [helper.make_node("Slice", ["x", "from", "to", "axes", "by"], ["y"])]
        places = {"from": [0, 1], "to": [side, side], "axes": [2, 3], "by": [2, 2]}
        weights = {name: np.array(value, np.int64) for name, value in places.items()}
        yield f"slice_{channels}x{side}", nodes, [1, channels, side, side], [1, channels, side // 2, side // 2], weights
