"""Graphs of the Media dialect for the tests of the backend, with seeded weights and short calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelc.graph import AttrValue, Graph, weight_of
from kernelc.media.builder import GraphBuilder


class Maker:
    """Adds nodes and gives the names of their results; `finish` gives the graph with outputs y0, y1, ..."""

    def __init__(self, seed: int = 1) -> None:
        self.builder = GraphBuilder()
        self._draw = np.random.Generator(np.random.PCG64(seed))
        self._inputs = 0

    def input(self, *shape: int) -> str:
        """A graph input of element type f32, called x0, x1, ..."""
        self._inputs += 1
        return self.builder.input(f"x{self._inputs - 1}", "f32", shape)

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        """A constant of normal numbers."""
        return self.constant(scale * self._draw.standard_normal(shape))

    def constant(self, value: npt.ArrayLike) -> str:
        """A constant of these numbers, as f32."""
        return self.builder.weight(weight_of(np.asarray(value, np.float32), "f32"))

    def node(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """A node of the dialect."""
        return self.builder.node(op, inputs, attrs)

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        strides: tuple[int, int] = (1, 1),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        dilations: tuple[int, int] = (1, 1),
        group: int = 1,
        bias: bool = True,
    ) -> str:
        """A convolution whose weights keep the size of its input's values."""
        sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
        depth = self.builder.tensors[x].shape[1]
        assert isinstance(depth, int)
        weight = self.weight(channels, depth // group, *sizes, scale=(depth // group * sizes[0] * sizes[1]) ** -0.5)
        operands = [x, weight, *([self.weight(channels)] if bias else [])]
        return self.node("conv", *operands, strides=strides, pads=pads, dilations=dilations, group=group)

    def conv_transpose(
        self,
        x: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        strides: tuple[int, int] = (2, 2),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        dilations: tuple[int, int] = (1, 1),
        output_padding: tuple[int, int] = (0, 0),
        group: int = 1,
        bias: bool = True,
    ) -> str:
        """A transposed convolution."""
        sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
        depth = self.builder.tensors[x].shape[1]
        assert isinstance(depth, int)
        weight = self.weight(depth, channels // group, *sizes, scale=(depth // group) ** -0.5)
        operands = [x, weight, *([self.weight(channels)] if bias else [])]
        return self.node(
            "conv_transpose", *operands, strides=strides, pads=pads, dilations=dilations, group=group,
            output_padding=output_padding,
        )  # fmt: skip

    def resize(self, x: str, **attrs: AttrValue) -> str:
        """A resize: twice as large, nearest, asymmetric, floor, unless said otherwise."""
        plain: dict[str, AttrValue] = {
            "mode": "nearest", "coordinates": "asymmetric", "rounding": "floor", "sizes": (), "scale_h": 2.0,
            "scale_w": 2.0, "antialias": 0, "cubic_a": -0.75, "exclude_outside": 0, "crop_top": 0.0, "crop_left": 0.0,
            "crop_bottom": 1.0, "crop_right": 1.0, "extrapolation": 0.0,
        }  # fmt: skip
        return self.node("resize", x, **plain | attrs)

    def finish(self, *outputs: str) -> Graph:
        """The finished graph."""
        return self.builder.finish([(f"y{number}", name) for number, name in enumerate(outputs)])
