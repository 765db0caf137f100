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
        down = _pairs(self.outputs, self.rows, self.height, self.row_stride, self.row_dilation, self.top)
        return down * _pairs(outputs, width, self.width, self.column_stride, self.column_dilation, self.left)

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
