"""Reads a model file into ONNX's own classes and refuses what is no model."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from kernelc.frontend import wire
from kernelfarm.errors import Code, FarmError
from kernelfarm.files import coded

MAX_MODEL_BYTES = 2**31 - 1
"""Protobuf's own limit for one message."""
MAX_NODES = 100_000
OLDEST_OPSET = 7
NEWEST_OPSET = 28
"""Range of ONNX's own operator set that the importer knows; a test holds the upper end against the `onnx` package."""

_NEXT = "Check the file, or export the model again as ONNX."


def read_model(path: Path) -> onnx.ModelProto:
    """The decoded model.

    Raises `FarmError` MODEL_INVALID, MODEL_TRUNCATED, MODEL_TOO_LARGE, or an ENVIRONMENT code where it cannot be read.
    """
    with coded("the model could not be read", path):
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise FarmError(Code.MODEL_NOT_A_FILE, "the model is not a plain file", path.name)
        size = facts.st_size
        if size > MAX_MODEL_BYTES:
            raise FarmError(
                Code.MODEL_TOO_LARGE, "the model file is too large", f"{size} bytes; the limit is {MAX_MODEL_BYTES}",
                "Store the weights as external data.",
            )  # fmt: skip
        data = path.read_bytes()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as reason:
        if wire.classify(data) == "truncated":
            why = f"its last field runs past the end of the {len(data)} bytes"
            raise FarmError(Code.MODEL_TRUNCATED, "the model file ends too early", why, _NEXT) from reason
        raise FarmError(Code.MODEL_INVALID, "the file is not an ONNX model", "it does not decode", _NEXT) from reason
    _check(model)
    return model


def opset_of(model: onnx.ModelProto) -> int:
    """Version of ONNX's own operator set that the model asks for; raises `FarmError` where it is missing or unknown."""
    versions = sorted({entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")})
    if len(versions) != 1:
        why = f"versions {versions} of ONNX's operator set are declared" if versions else "no operator set is declared"
        raise FarmError(Code.MODEL_INVALID, "the model's operator set is unclear", why, _NEXT)
    if not OLDEST_OPSET <= versions[0] <= NEWEST_OPSET:
        raise FarmError(
            Code.OPSET_UNSUPPORTED,
            f"operator set {versions[0]} is not supported",
            f"supported are {OLDEST_OPSET} to {NEWEST_OPSET}",
            "Convert the model with onnx.version_converter.",
            detail={"opset": versions[0], "oldest": OLDEST_OPSET, "newest": NEWEST_OPSET},
        )
    return int(versions[0])


def _check(model: onnx.ModelProto) -> None:
    if not all(isinstance(text, str) for text in _texts(model)):
        raise FarmError(Code.MODEL_INVALID, "the file is not an ONNX model", "a name in it is not UTF-8", _NEXT)
    if not model.HasField("graph") or not model.graph.output:
        why = "it has no graph" if not model.HasField("graph") else "its graph has no output"
        raise FarmError(Code.MODEL_INVALID, "the file is not an ONNX model", why, _NEXT)
    if len(model.graph.node) > MAX_NODES:
        why = f"{len(model.graph.node)} nodes; the limit is {MAX_NODES}"
        raise FarmError(Code.MODEL_TOO_LARGE, "the model has too many nodes", why)
    if model.graph.sparse_initializer:
        what = f"{len(model.graph.sparse_initializer)} of the model's weights are sparse"  # no names before scrubbing
        raise FarmError(Code.OPERATOR_FORM_UNSUPPORTED, what, "only dense weights are supported")


def _texts(message: Any) -> Iterator[object]:
    """Every string of a message; protobuf gives bytes for one that is not UTF-8."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            yield from value if field.is_repeated else (value,)
        elif field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield from _texts(part)
