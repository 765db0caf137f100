"""Real photographs and scans for detectors: those in the pinned wheel of scikit-image, which is not installed.

They are fetched as the models are (`tests.support.models`), by hash, and read here: PNG of 8 bits, grey or RGB, not
interlaced. `python -m tests.support.photos` fetches all and prints their paths.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from kernelfarm.errors import FarmError
from tests.support.models import PackagedModel, fetch_file

Image = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3}  # by colour type


def _photo(name: str, size: int, digest: str) -> PackagedModel:
    return PackagedModel(name, "scikit-image", f"skimage/data/{name}.png", size, f"sha256:{digest}", "")


SCENES = (
    _photo("astronaut", 791555, "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"),
    _photo("coffee", 466706, "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7"),
    _photo("chelsea", 240512, "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb"),
)
"""A face, a table from above, a cat: RGB."""
PAGES = (
    _photo("page", 47679, "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3"),
    _photo("text", 42704, "bd84aa3a6e3c9887850d45d606c96b2e59433fbef50338570b63c319e668e6d1"),
)
"""A scanned page of a book, handwriting: grey."""


def scene(number: int, height: int, width: int) -> Image:
    """[1, 3, height, width] in 0..255: a photograph, from its middle and scaled; upside down past the last one."""
    return _fitted(SCENES, number, height, width)


def page(number: int, height: int, width: int) -> Image:
    """As `scene`, of something written."""
    return _fitted(PAGES, number, height, width)


def _fitted(photos: tuple[PackagedModel, ...], number: int, height: int, width: int) -> Image:
    turns, which = divmod(number, len(photos))
    pixels = _read(photos[which]).astype(np.float32)
    scale = min(pixels.shape[0] / height, pixels.shape[1] / width)
    scaled = _sampled(_sampled(pixels, height, scale).transpose(1, 0, 2), width, scale).transpose(2, 1, 0)
    turned = scaled[:, ::-1, ::-1] if turns % 2 else scaled
    return np.ascontiguousarray(np.broadcast_to(turned, (3, height, width)))[None]


def _sampled(pixels: Image, count: int, scale: float) -> Image:
    """`count` rows, `scale` rows apart around the middle, each between its two neighbours."""
    at = (pixels.shape[0] - 1) / 2 + (np.arange(count) - (count - 1) / 2) * scale
    low = np.clip(np.floor(at).astype(int), 0, pixels.shape[0] - 1)
    high = np.minimum(low + 1, pixels.shape[0] - 1)
    share = (at - low).astype(np.float32)[:, None, None]
    return pixels[low] * (1 - share) + pixels[high] * share


@cache
def _read(photo: PackagedModel) -> Bytes:
    """[height, width, channels]."""
    data = fetch_file(photo).read_bytes()
    assert data.startswith(_SIGNATURE)
    chunks = list(_chunks(data))
    width, height, *form = struct.unpack(">2I5B", chunks[0][1])
    assert (form[0], form[2:]) == (8, [0, 0, 0])
    channels = _CHANNELS[form[1]]
    packed = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    length, above, rows = width * channels, bytes(width * channels), []
    for start in range(0, len(packed), length + 1):
        above = _unfiltered(packed[start], packed[start + 1 : start + 1 + length], above, channels)
        rows.append(above)
    return np.frombuffer(b"".join(rows), np.uint8).reshape(height, width, channels)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + size]
        at += size + 12


def _unfiltered(kind: int, row: bytes, above: bytes, step: int) -> bytes:
    """A row of the image: PNG specification, section 9.2. `step` is the bytes of a pixel."""
    done = bytearray(step) + bytearray(row)
    corner = bytes(step) + above
    for k in range(step, len(done)):
        left, up = done[k - step], corner[k]
        done[k] = (done[k] + (0, left, up, (left + up) // 2, _paeth(left, up, corner[k - step]))[kind]) & 255
    return bytes(done[step:])


def _paeth(left: int, up: int, corner: int) -> int:
    far_left, far_up, far_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if far_left <= far_up and far_left <= far_corner:
        return left
    return up if far_up <= far_corner else corner


def main() -> int:
    """Fetch all and print their paths."""
    try:
        for photo in (*SCENES, *PAGES):
            print(fetch_file(photo))
    except FarmError as error:
        print(error, file=sys.stderr)
        return int(error.status)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
