"""Weights in the order in which kernels read them: pure moves and zero padding, no arithmetic.

A packing is named by an id that says everything about it, so that two targets with the same packing share segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import Weight

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Packing:
    """`kind` is one of the functions below, `lanes` the channels of a block, `channels` their number.

    `width` x `height` is the image of a "blocked" weight or, one row, of a "sequence"; 1 for the others.
    """

    kind: str
    lanes: int
    channels: int
    height: int = 1
    width: int = 1

    @property
    def id(self) -> str:
        """Name of the packing, for example "dense/16x24"."""
        image = f"@{self.height}x{self.width}" if self.kind in ("blocked", "sequence") else ""
        return f"{self.kind}/{self.lanes}x{self.channels}{image}"


def packed(weight: Weight, packing: Packing) -> bytes:
    """Bytes of the weight in a packing, little-endian f32."""
    array = np.asarray(weight.array)
    match packing.kind:
        case "dense":
            result = _dense(array, packing)
        case "transposed":
            result = _dense(array.swapaxes(0, 1), packing)
        case "plain":
            result = array
        case "matrix":
            result = _dense(array.T[:, :, None, None], packing)
        case "depthwise":
            result = _blocks(array[:, 0], packing).transpose(0, 2, 3, 1)
        case "blocked":
            result = _image(array.reshape(packing.channels, packing.height, packing.width), packing)
        case "sequence":
            result = _image(array.reshape(packing.width, packing.channels).T[:, None, :], packing)
        case _:
            raise ValueError(f"no packing {packing.kind!r}")
    return np.ascontiguousarray(result, "<f4").tobytes()


def _dense(array: Array, packing: Packing) -> Array:
    """[O, I, KH, KW] to [output block][kernel row][kernel column][input channel][output lane]."""
    return _blocks(array, packing).transpose(0, 3, 4, 2, 1)


def _image(array: Array, packing: Packing) -> Array:
    """[C, H, W] to [block][row][column][lane]."""
    return _blocks(array, packing).transpose(0, 2, 3, 1)


def _blocks(array: Array, packing: Packing) -> Array:
    """The first axis cut into [block][lane], filled with zeros."""
    blocks = -(-packing.channels // packing.lanes)
    padded: Array = np.zeros((blocks * packing.lanes, *array.shape[1:]), "<f4")
    padded[: packing.channels] = array
    return padded.reshape(blocks, packing.lanes, *array.shape[1:])
