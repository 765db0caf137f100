"""The runtime library of a payload through ctypes: what runtime/include/media_engine.h declares, no more.

Loads foreign machine code into the calling process: only children of `farm bench` may use it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelfarm.errors import Code, FarmError

_MAX_RANK = 8
_VERSION = 1
_INPUT, _OUTPUT = 0, 1
_F32 = 1
MAX_THREADS = 64
"""More the runtime does not take."""

Array = npt.NDArray[np.float32]


class _Error(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("code", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("message", ctypes.c_char * 240),
    )


class _Config(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("target", ctypes.c_char_p),
        ("error", ctypes.POINTER(_Error)),
        ("partitions", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("dtype", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("dims", ctypes.c_int64 * _MAX_RANK),
    )


class _TensorInfo(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("name", ctypes.c_char * 128),
        ("dtype", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("dims", ctypes.c_int64 * _MAX_RANK),
        ("bytes", ctypes.c_uint64),
    )


class _EngineInfo(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("target", ctypes.c_char * 32),
        ("abi_version", ctypes.c_uint32),
        ("ir_version", ctypes.c_uint32),
        ("inputs", ctypes.c_uint32),
        ("outputs", ctypes.c_uint32),
        ("operations", ctypes.c_uint32),
        ("functions", ctypes.c_uint32),
        ("arena_bytes", ctypes.c_uint64),
        ("weights_bytes", ctypes.c_uint64),
        ("scratch_bytes", ctypes.c_uint64),
        ("kernel_bytes", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output as the engine describes it."""

    name: str
    shape: tuple[int, ...]


def _sized(kind: type[Any]) -> Any:
    return kind(size=ctypes.sizeof(kind), version=_VERSION)


def _library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.media_engine_open.argtypes = (
        ctypes.c_char_p,
        ctypes.POINTER(_Config),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(_Error),
    )
    library.media_engine_infer.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Tensor), ctypes.POINTER(_Tensor))
    library.media_engine_destroy.argtypes = (ctypes.c_void_p,)
    library.media_engine_destroy.restype = None
    library.media_engine_last_error.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Error))
    library.media_engine_info.argtypes = (ctypes.c_void_p, ctypes.POINTER(_EngineInfo))
    library.media_engine_describe.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.POINTER(_TensorInfo),
    )
    return library


class Engine:
    """One engine over an OCI layout folder; a context manager.

    Raises `FarmError` ENGINE_FAILED with the runtime's message, CASE_INVALID for tensors that are not float32.
    """

    def __init__(self, library: Path, layout: Path, target: str, threads: int = 1) -> None:
        self._library = _library(library)
        self._handle = ctypes.c_void_p()
        error, config = _sized(_Error), _sized(_Config)
        config.target, config.threads = target.encode(), threads
        code = self._library.media_engine_open(
            bytes(layout), ctypes.byref(config), ctypes.byref(self._handle), ctypes.byref(error)
        )
        if code != 0:
            raise _failed("the engine could not be made", code, error)
        info = _sized(_EngineInfo)
        self._require(
            self._library.media_engine_info(self._handle, ctypes.byref(info)), "the engine does not describe itself"
        )
        self.inputs = tuple(self._describe(_INPUT, index) for index in range(info.inputs))
        self.outputs = tuple(self._describe(_OUTPUT, index) for index in range(info.outputs))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.media_engine_destroy(self._handle)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        """A call that runs one inference over these arrays; each is contiguous, float32 and of the described shape."""
        given = self._tensors(self.inputs, inputs)
        taken = self._tensors(self.outputs, outputs)
        infer, handle, keep = self._library.media_engine_infer, self._handle, (inputs, outputs)

        def run(alive: object = keep) -> None:
            del alive
            code = infer(handle, given, taken)
            if code != 0:
                self._require(code, "an inference failed")

        return run

    def _tensors(self, infos: Sequence[TensorInfo], arrays: Mapping[str, Array]) -> ctypes.Array[_Tensor]:
        tensors = (_Tensor * len(infos))()
        for tensor, info in zip(tensors, infos, strict=True):
            array = arrays[info.name]
            if array.dtype != np.float32 or array.shape != info.shape or not array.flags.c_contiguous:
                raise FarmError(Code.CASE_INVALID, f"the array for {info.name!r} is not {list(info.shape)} of float32")
            tensor.size, tensor.version = ctypes.sizeof(_Tensor), _VERSION
            tensor.data, tensor.bytes = array.ctypes.data, array.nbytes
        return tensors

    def _describe(self, direction: int, index: int) -> TensorInfo:
        info = _sized(_TensorInfo)
        code = self._library.media_engine_describe(self._handle, direction, index, ctypes.byref(info))
        self._require(code, "the engine does not describe a tensor")
        if info.dtype != _F32:
            raise FarmError(Code.CASE_INVALID, f"the type {info.dtype} of a tensor is not float32")
        return TensorInfo(info.name.decode(), tuple(info.dims[: info.rank]))

    def _require(self, code: int, what: str) -> None:
        if code != 0:
            error = _sized(_Error)
            self._library.media_engine_last_error(self._handle, ctypes.byref(error))
            raise _failed(what, code, error)


def _failed(what: str, code: int, error: Any) -> FarmError:
    return FarmError(
        Code.ENGINE_FAILED, what, f"code {code}: {error.message.decode(errors='replace')}", detail={"code": code}
    )
