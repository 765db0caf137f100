"""Values of the dialect in the memory of kernels and back, with marks in every place that no reader may use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelc.graph import Tensor
from kernelc.layout.buffer import Buffer
from kernelc.layout.geometry import image

Array = NDArray[Any]


def to_image(value: Array, tensor: Tensor) -> Array:
    """A value as [C, H, W]."""
    shape = image(tensor)
    return value[0].T.reshape(shape) if value.ndim == 3 else value.reshape(shape)


def from_image(found: Array, tensor: Tensor) -> Array:
    """[C, H, W] as a value of the tensor's shape."""
    return found[:, 0].T[None] if len(tensor.shape) == 3 else found.reshape(tensor.static_shape)


def pack(found: Array, buffer: Buffer) -> bytes:
    """[C, H, W] in a buffer: zeros in the halo, NaN in the lanes beyond the channels, little-endian f32."""
    channels, height, width = found.shape
    memory = np.full((buffer.blocks * buffer.lanes, height, buffer.pitch), np.nan, "<f4")
    memory[:channels] = 0
    memory[:channels, :, buffer.left : buffer.left + width] = found
    blocks = memory.reshape(buffer.blocks, buffer.lanes, height, buffer.pitch)
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 1)).tobytes()


def unpack(data: bytes, buffer: Buffer) -> tuple[Array, Array]:
    """[C, H, W] of a buffer, and its halo columns [C, H, left + right]."""
    blocks = np.frombuffer(data, "<f4").reshape(buffer.shape).transpose(0, 3, 1, 2)
    rows = blocks.reshape(buffer.blocks * buffer.lanes, buffer.height, buffer.pitch)[: buffer.channels]
    end = buffer.left + buffer.width
    return rows[:, :, buffer.left : end], np.concatenate([rows[:, :, : buffer.left], rows[:, :, end:]], axis=2)
