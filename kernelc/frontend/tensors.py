"""Constants of a model as weights: every size is checked before anything of that size is allocated."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx

from kernelc.frontend.external_data import read_external
from kernelc.frontend.site import shown
from kernelc.graph import NUMPY_TYPES, Weight, weight_of
from kernelfarm.digest import of_bytes
from kernelfarm.errors import Code, FarmError

DTYPES = {
    onnx.TensorProto.FLOAT: "f32",
    onnx.TensorProto.UINT8: "u8",
    onnx.TensorProto.INT8: "i8",
    onnx.TensorProto.UINT16: "u16",
    onnx.TensorProto.INT16: "i16",
    onnx.TensorProto.INT32: "i32",
    onnx.TensorProto.INT64: "i64",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.FLOAT16: "f16",
    onnx.TensorProto.DOUBLE: "f64",
    onnx.TensorProto.UINT32: "u32",
    onnx.TensorProto.UINT64: "u64",
}
"""ONNX's numbers of element types that are supported."""
_FIELDS = {"f32": "float_data", "f64": "double_data", "i64": "int64_data", "u32": "uint64_data", "u64": "uint64_data"}
_OTHER_FIELD = "int32_data"
MAX_RANK = 8
MAX_WEIGHT_BYTES = 2**31 - 1
"""Limit for all constants of a model together."""


def field_of(dtype: str) -> str:
    """The field of a TensorProto that holds numbers of this type where there is no raw data."""
    return _FIELDS.get(dtype, _OTHER_FIELD)


def dtype_of(number: int, what: str) -> str:
    """Our name of an element type; raises `FarmError` DTYPE_UNSUPPORTED naming `what` has it."""
    if number in DTYPES:
        return DTYPES[number]
    known = number in onnx.TensorProto.DataType.values()
    name = onnx.TensorProto.DataType.Name(number) if known else f"number {number}"
    raise FarmError(
        Code.DTYPE_UNSUPPORTED, f"{what} has the element type {name}", f"supported are {', '.join(sorted(NUMPY_TYPES))}"
    )


class TensorReader:
    """Reads the constants of one model, whose file lies in `folder`, up to a limit for all together."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._left = max_bytes
        self._limit = max_bytes

    def read(self, tensor: onnx.TensorProto, what: str = "") -> Weight:
        """The constant. Raises `FarmError` TENSOR_INVALID, DTYPE_UNSUPPORTED, MODEL_TOO_LARGE or EXTERNAL_*."""
        what = what or f"weight {shown(tensor.name)}"
        dtype = dtype_of(tensor.data_type, what)
        shape = self._shape(tensor, dtype, what)
        size = prod(shape) * NUMPY_TYPES[dtype].itemsize
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data = read_external(self._folder, tensor.external_data, size, what)
        elif tensor.HasField("raw_data"):
            data = tensor.raw_data
        else:
            return _typed(tensor, dtype, shape, what)
        if len(data) != size:
            raise _invalid(what, f"it has {len(data)} bytes; {dtype} of {list(shape)} takes {size}")
        if dtype == "bool":
            return weight_of(np.frombuffer(data, np.uint8).reshape(shape) != 0, dtype)
        return Weight(of_bytes(data), dtype, shape, data)

    def _shape(self, tensor: onnx.TensorProto, dtype: str, what: str) -> tuple[int, ...]:
        shape = tuple(int(size) for size in tensor.dims)
        if min(shape, default=0) < 0:
            raise _invalid(what, f"its shape {list(shape[:MAX_RANK])} has a negative size")
        if len(shape) > MAX_RANK:
            raise _invalid(what, f"its rank {len(shape)} is over the limit of {MAX_RANK}")
        self._left -= prod(shape) * NUMPY_TYPES[dtype].itemsize
        if self._left < 0:
            why = f"with {what} of shape {list(shape)} they pass {self._limit} bytes"
            raise FarmError(Code.MODEL_TOO_LARGE, "the model's weights are too large", why)
        return shape


def _typed(tensor: onnx.TensorProto, dtype: str, shape: tuple[int, ...], what: str) -> Weight:
    items = getattr(tensor, field_of(dtype))
    if len(items) != prod(shape):
        raise _invalid(what, f"it has {len(items)} elements; its shape {list(shape)} takes {prod(shape)}")
    if dtype.startswith("f") and dtype != "f16":
        return weight_of(np.array(items, NUMPY_TYPES[dtype]).reshape(shape), dtype)
    storage = np.dtype("<u2") if dtype == "f16" else NUMPY_TYPES[dtype]  # float16 is stored as its bits
    wide = np.array(items, object)
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(storage.str).min, np.iinfo(storage.str).max)
    if any(not low <= item <= high for item in items):
        raise _invalid(what, f"an element does not fit {dtype}")
    return weight_of(wide.astype(storage).view(NUMPY_TYPES[dtype]).reshape(shape), dtype)


def _invalid(what: str, why: str) -> FarmError:
    return FarmError(Code.TENSOR_INVALID, f"{what} is invalid", why, "Export the model again.")
