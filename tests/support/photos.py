"""Images such as a camera or scanner makes, from a seed: soft light, things with edges, print, a little noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]


def scene(seed: int, height: int, width: int) -> Image:
    """[1, 3, height, width] in 0..255: a lit background with discs and boxes of plain colours."""
    draw = np.random.Generator(np.random.PCG64(seed))
    rows, columns = np.mgrid[0:1:height * 1j, 0:1:width * 1j]  # fmt: skip
    colours, slopes = draw.uniform(40, 215, (8, 3, 1, 1)), draw.uniform(-60, 60, (2, 3, 1, 1))
    image = colours[0] + slopes[0] * (rows - 0.5) + slopes[1] * (columns - 0.5)
    for number, colour in enumerate(colours[1:]):
        y, x, size = draw.uniform(0.1, 0.9), draw.uniform(0.1, 0.9), draw.uniform(0.05, 0.3)
        down, across = np.abs(rows - y), np.abs(columns - x)
        inside = np.hypot(down, across) < size if number % 2 else np.maximum(down, 2 * across) < size
        image = np.where(inside, colour * (1 - down), image)
    return _finished(image, draw)


def page(seed: int, height: int, width: int) -> Image:
    """[1, 3, height, width] in 0..255: light paper with lines of dark strokes, in words of several lengths."""
    draw = np.random.Generator(np.random.PCG64(seed))
    image = np.full((3, height, width), draw.uniform(200, 250))
    for top in range(8, height - 12, 18):
        left = 6
        while left < width - 12:
            stroke, gap = int(draw.integers(2, 4)), int(draw.choice([2, 3, 9]))
            low, high = top + int(draw.integers(0, 4)), top + int(draw.integers(7, 11))
            image[:, low:high, left : left + stroke] = draw.uniform(10, 60)
            image[:, (low + high) // 2, left : left + stroke + 4] = draw.uniform(10, 60)
            left += stroke + gap
    return _finished(image, draw)


def _finished(image: npt.NDArray[np.float64], draw: np.random.Generator) -> Image:
    noisy = image + draw.normal(0, 2, image.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.float32)[None]
