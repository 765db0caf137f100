"""Windows that slide over an image: which rows and columns a tap reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taps:
    """A kernel of `height` x `width` taps: strides, dilations and leading pads in elements.

    `rows` is the height of the input image and `outputs` that of the output.
    """

    height: int
    width: int
    row_stride: int
    column_stride: int
    row_dilation: int
    column_dilation: int
    top: int
    left: int
    rows: int
    outputs: int

    def pairs(self, width: int, outputs: int) -> int:
        """How many (output pixel, tap) pairs lie inside an image of `width`, for `outputs` output columns."""
        return self.row_pairs * _pairs(outputs, width, self.width, self.column_stride, self.column_dilation, self.left)

    @property
    def row_pairs(self) -> int:
        """How many (output row, tap) pairs lie inside the image."""
        return _pairs(self.outputs, self.rows, self.height, self.row_stride, self.row_dilation, self.top)

    @property
    def always_inside(self) -> bool:
        """Whether no tap of any output row leaves the image at its top or bottom."""
        last = (self.outputs - 1) * self.row_stride + (self.height - 1) * self.row_dilation - self.top
        return self.top == 0 and last < self.rows

    def right(self, width: int, outputs: int) -> int:
        """Columns past an input row of `width` that the taps of `outputs` columns read."""
        last = (outputs - 1) * self.column_stride + (self.width - 1) * self.column_dilation - self.left
        return max(0, last - (width - 1))


def _pairs(outputs: int, size: int, taps: int, stride: int, dilation: int, before: int) -> int:
    total = 0
    for tap in range(taps):  # outputs with 0 <= output * stride + tap * dilation - before < size, by the bounds alone
        first = max(0, -((tap * dilation - before) // stride))
        last = min(outputs - 1, (size - 1 + before - tap * dilation) // stride)
        total += max(0, last - first + 1)
    return total


@dataclass(frozen=True, slots=True)
class Phase:
    """The outputs `first`, `first` + stride, ... of a transposed convolution along one axis, `count` of them.

    They are a plain convolution of stride 1: of `taps` taps, tap j of output m reads the input at m + `offset` +
    j * `dilation` and is the element `kernel` - j * `kernel_step` of the kernel.
    """

    first: int
    count: int
    taps: int
    offset: int
    dilation: int
    kernel: int
    kernel_step: int

    def reach(self, size: int) -> tuple[int, int]:
        """Elements before and after an input of `size` that are read."""
        if self.taps == 0:
            return 0, 0
        last = self.count - 1 + self.offset + (self.taps - 1) * self.dilation
        return max(0, -self.offset), max(0, last - (size - 1))

    def pairs(self, size: int) -> int:
        """How many (output, tap) pairs lie inside an input of `size`."""
        return _pairs(self.count, size, self.taps, 1, self.dilation, -self.offset)


def phases(outputs: int, stride: int, kernel: int, dilation: int, before: int) -> tuple[Phase, ...]:
    """The phases of a transposed convolution: input i adds to output i * stride + k * dilation - before, for all k.

    So output q of phase q mod stride meets those k for which q + before - k * dilation is a multiple of the stride.
    """
    found = []
    for first in range(min(stride, outputs)):
        elements = [k for k in range(kernel) if (first + before - k * dilation) % stride == 0]
        count = -(-(outputs - first) // stride)
        step = elements[1] - elements[0] if len(elements) > 1 else 1
        last = elements[-1] if elements else 0
        offset = (first + before - last * dilation) // stride
        found.append(Phase(first, count, len(elements), offset, step * dilation // stride or 1, last, step))
    return tuple(found)
