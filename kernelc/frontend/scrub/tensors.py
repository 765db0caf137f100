"""Constants without anything but their numbers: inline data is copied, external data gets its place in one file."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx

from kernelc.frontend.external_data import place_of
from kernelc.frontend.scrub.rules import DATA_FILE, aligned
from kernelc.frontend.tensors import DTYPES, MAX_RANK, MAX_WEIGHT_BYTES, field_of
from kernelc.graph import NUMPY_TYPES
from kernelfarm.errors import Code, FarmError


@dataclass(frozen=True, slots=True)
class Range:
    """`length` bytes at `offset` of the file at `location` beside the model."""

    location: str
    offset: int
    length: int


class TensorScrubber:
    """Copies the constants of one model. `ranges` are those of external data, each once, in the order of their use."""

    def __init__(self) -> None:
        self._places: dict[Range, int] = {}
        self._end = 0
        self._total = 0

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What `DATA_FILE` must hold, each range at the next aligned offset."""
        return tuple(self._places)

    def copy(self, tensor: onnx.TensorProto, name: str, what: str) -> onnx.TensorProto:
        """The constant under another name, "" for none; `what` is what errors call it.

        Data that the importer refuses by element type or shape is left out: it refuses them before it reads any.

        Raises `FarmError` TENSOR_INVALID, EXTERNAL_OUTSIDE or MODEL_TOO_LARGE.
        """
        made = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        if name:
            made.name = name
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None or min(tensor.dims, default=0) < 0 or len(tensor.dims) > MAX_RANK:
            return made
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            self._external(tensor, made, prod(tensor.dims) * NUMPY_TYPES[dtype].itemsize, what)
        elif tensor.HasField("raw_data"):
            made.raw_data = tensor.raw_data
        else:
            field = field_of(dtype)
            getattr(made, field).extend(getattr(tensor, field))
        return made

    def _external(self, tensor: onnx.TensorProto, made: onnx.TensorProto, size: int, what: str) -> None:
        if size > MAX_WEIGHT_BYTES:
            return
        found = Range(*place_of(tensor.external_data, size, what))
        if found not in self._places:
            self._places[found] = aligned(self._end)
            self._end = self._places[found] + size
            self._total += size
            if self._total > MAX_WEIGHT_BYTES:
                why = f"external data of more than {MAX_WEIGHT_BYTES} bytes"
                raise FarmError(Code.MODEL_TOO_LARGE, "the model's weights are too large", why)
        made.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", DATA_FILE), ("offset", self._places[found]), ("length", size)):
            made.external_data.add(key=key, value=str(value))
