"""`golden.bin`: what a payload must answer, for a device to try before it trusts the kernels.

The layout is `struct kf_golden` of runtime/include/kf_format.h, everything little-endian. Inputs are not in it: they
follow from seeds (`kernelc.numerics.seeded` and runtime/src/golden.c hold the same generator).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelfarm.errors import Code, FarmError

NAME = "golden.bin"
FORMAT_VERSION = 1
ABSOLUTE = 1e-4
RELATIVE = 1e-3
"""The product's tolerance: |a - b| <= ABSOLUTE + RELATIVE * |b| for each element, b the expected one."""
ELEMENT_BYTES = 4
"""Every tensor is float32 so far."""

_MAGIC = 0x5647464B
_HEAD = struct.Struct("<2IQ4I2f")
_MAX_CASES, _MAX_TENSORS, _MAX_BYTES = 256, 256, 1 << 40

SIZES = {"kf_golden": _HEAD.size}
"""Bytes of each C struct."""


@dataclass(frozen=True, slots=True)
class Case:
    """The seed of each input, and the expected bytes of each output (float32)."""

    seeds: tuple[int, ...]
    outputs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Golden:
    """Cases over inputs and outputs of these sizes in bytes, in the order of the entry table, with the tolerance."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cases: tuple[Case, ...]
    absolute: float = ABSOLUTE
    relative: float = RELATIVE

    def to_bytes(self) -> bytes:
        """The file; raises `FarmError` DEVICE_FILE_INVALID for one that no device would take."""
        _check(self, NAME)
        sizes = (*self.inputs, *self.outputs)
        seeds = [seed for case in self.cases for seed in case.seeds]
        counts = (len(self.cases), len(self.inputs), len(self.outputs), 0)
        head = _HEAD.pack(_MAGIC, FORMAT_VERSION, _size(self), *counts, self.absolute, self.relative)
        numbers = struct.pack(f"<{len(sizes) + len(seeds)}Q", *sizes, *seeds)
        return b"".join((head, numbers, *(data for case in self.cases for data in case.outputs)))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = NAME) -> Golden:
        """The vectors in a file; raises `FarmError` DEVICE_FILE_INVALID naming the file and the fault."""
        _require(len(data) >= _HEAD.size, name, "shorter than its fixed part")
        magic, version, size, n_cases, n_inputs, n_outputs, reserved, *tolerance = _HEAD.unpack_from(data)
        _require(magic == _MAGIC, name, "not golden vectors")
        _require(version == FORMAT_VERSION, name, f"format version {version}, known is {FORMAT_VERSION}")
        _require(reserved == 0, name, "reserved field in use")
        _require(1 <= n_cases <= _MAX_CASES, name, "number of cases out of range")
        _require(n_inputs <= _MAX_TENSORS and 1 <= n_outputs <= _MAX_TENSORS, name, "number of tensors out of range")
        count = n_inputs + n_outputs + n_cases * n_inputs
        _require(size == len(data) >= _HEAD.size + 8 * count, name, "its size does not fit its tables")
        numbers = struct.unpack_from(f"<{count}Q", data, _HEAD.size)
        inputs, outputs = numbers[:n_inputs], numbers[n_inputs : n_inputs + n_outputs]
        seeds = numbers[n_inputs + n_outputs :]
        _require(size == _HEAD.size + 8 * count + n_cases * sum(outputs), name, "its size does not fit its tensors")
        values = _cut(data, _HEAD.size + 8 * count, outputs * n_cases)
        cases = tuple(
            Case(seeds[number * n_inputs : (number + 1) * n_inputs], tuple(next(values) for _ in outputs))
            for number in range(n_cases)
        )
        golden = cls(inputs, outputs, cases, *tolerance)
        _check(golden, name)
        return golden

    def require_tolerance(self, name: str = NAME) -> None:
        """Raise `FarmError` DEVICE_FILE_INVALID where the tolerance is wider than the product's."""
        for label, given, most in (("absolute", self.absolute, ABSOLUTE), ("relative", self.relative, RELATIVE)):
            widest = max(most, *struct.unpack("<f", struct.pack("<f", most)))  # the file holds a float32
            _require(given <= widest, name, f"its {label} tolerance is {given:.3g}, the product's is {most:.3g}")

    def require_fits(self, config: Mapping[str, Any], name: str = NAME) -> None:
        """Raise `FarmError` DEVICE_FILE_INVALID unless the sizes are those of a payload's config.json, in its order."""
        for label, sizes in (("inputs", self.inputs), ("outputs", self.outputs)):
            wanted = tuple(ELEMENT_BYTES * math.prod(tensor["shape"]) for tensor in config[label])
            _require(
                sizes == wanted, name, f"its {label} have {_listed(sizes)} bytes, those of the model {_listed(wanted)}"
            )


def _size(golden: Golden) -> int:
    numbers = len(golden.inputs) + len(golden.outputs) + len(golden.cases) * len(golden.inputs)
    return _HEAD.size + 8 * numbers + len(golden.cases) * sum(golden.outputs)


def _check(golden: Golden, name: str) -> None:
    _require(1 <= len(golden.cases) <= _MAX_CASES, name, "number of cases out of range")
    _require(len(golden.inputs) <= _MAX_TENSORS, name, "number of tensors out of range")
    _require(1 <= len(golden.outputs) <= _MAX_TENSORS, name, "number of tensors out of range")
    for size in (*golden.inputs, *golden.outputs):
        _require(0 < size < _MAX_BYTES and size % ELEMENT_BYTES == 0, name, "size of a tensor out of range")
    for tolerance in (golden.absolute, golden.relative):
        _require(0 <= tolerance < 1, name, "a tolerance out of range")
    for case in golden.cases:
        _require(len(case.seeds) == len(golden.inputs), name, "a case without a seed for each input")
        _require(all(0 <= seed < 1 << 64 for seed in case.seeds), name, "a seed out of range")
        _require(tuple(map(len, case.outputs)) == golden.outputs, name, "a case with outputs of other sizes")


def _cut(data: bytes, start: int, sizes: Sequence[int]) -> Iterator[bytes]:
    for size in sizes:
        yield data[start : start + size]
        start += size


def _listed(sizes: Sequence[int]) -> str:
    return " and ".join(str(size) for size in sizes) or "no"


def _require(holds: bool, name: str, why: str) -> None:
    if not holds:
        raise FarmError(Code.DEVICE_FILE_INVALID, f"{name} is malformed", why, detail={"file": name})
