"""Tells a truncated model from a file that is none, by the outermost level of the protobuf encoding."""

from __future__ import annotations

from typing import Literal

_VARINT, _BYTES = 0, 2
# Fields of ModelProto (onnx.proto3): number -> wire type.
_FIELDS = {1: _VARINT, 2: 2, 3: 2, 4: 2, 5: _VARINT, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_LONGEST_VARINT = 10
_OVERLONG = -1


def classify(data: bytes) -> Literal["whole", "truncated", "foreign"]:
    """What the file is: "foreign" has a field that no model has; in "truncated" a known field runs past the end."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        if key is None:
            return "truncated" if position else "foreign"
        if key == _OVERLONG or _FIELDS.get(key >> 3) != key & 7:
            return "foreign"
        value, position = _varint(data, position)
        if value is None:
            return "truncated"
        if value == _OVERLONG:
            return "foreign"
        position += value if key & 7 == _BYTES else 0
    return "whole" if position == len(data) else "truncated"


def _varint(data: bytes, position: int) -> tuple[int | None, int]:
    """The number at a position and the place after it; None where the data ends inside, `_OVERLONG` for no number."""
    value = 0
    for shift in range(_LONGEST_VARINT):
        if position >= len(data):
            return None, position
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position
    return _OVERLONG, position
