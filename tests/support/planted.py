"""Secrets planted wherever ONNX can hold a text, and a search for them in bytes, however they are packed."""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from onnx import helper, numpy_helper

AUTHOR, MAIL = "Zebulon Quackenbush", "zquack@orchid-labs.example"
PATH, WINDOWS_PATH = "/home/zquack/secret/train_v7.py", r"C:\Users\zquack\weights"
WORD = "Falkenhorst"
"""A code name that nothing but a user's list can tell from an honest name."""
SECRETS = ("Quackenbush", "zquack", "orchid-labs", "train_v7", "Falkenhorst", "falken_horst")
_TEXT = f"{AUTHOR} <{MAIL}> {PATH} {WORD} falken_horst"

_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_MEANING = frozenset(
    {
        "onnx.NodeProto.op_type", "onnx.NodeProto.domain", "onnx.NodeProto.input", "onnx.NodeProto.output",
        "onnx.OperatorSetIdProto.domain", "onnx.AttributeProto.name", "onnx.AttributeProto.ref_attr_name",
        "onnx.ValueInfoProto.name", "onnx.TensorProto.name", "onnx.TypeProto.denotation",
        "onnx.NodeProto.overload",
    }
)  # fmt: skip
"""Texts that decide what is computed, or are names, which `renamed` changes everywhere at once."""


def everywhere(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same computation, secrets in every field of text that does not decide it, in every name, in unknown fields.

    Inputs and outputs get names that hold a secret as well.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _extras(made)
    _fill(made)
    _rename(made, lambda name: f"{PATH}/{WORD}/{name}")
    unknown = b"\xfa\x3f" + bytes([len(_TEXT)]) + _TEXT.encode()  # field 1023, of length
    made.graph.MergeFromString(unknown)
    made.graph.node[0].MergeFromString(unknown)
    made.MergeFromString(unknown)
    return made


def _extras(model: onnx.ModelProto) -> None:
    """Parts that compute nothing here, with texts where elsewhere they would decide something: functions, training
    graphs, notes on quantisation and devices, weights and types that nobody reads.
    """
    import numpy as np

    graph = model.graph
    text = np.frombuffer(_TEXT.encode(), np.uint8)
    graph.initializer.append(numpy_helper.from_array(text, "unread"))
    graph.initializer.append(onnx.TensorProto(name="texts", data_type=onnx.TensorProto.STRING, dims=[1]))
    graph.initializer[-1].string_data.append(_TEXT.encode())
    graph.value_info.append(helper.make_tensor_value_info("nowhere", onnx.TensorProto.FLOAT, [WORD, 3]))
    graph.quantization_annotation.add(tensor_name="x").quant_parameter_tensor_names.add(key="SCALE", value="unread")
    inner = helper.make_node(WORD, [_TEXT], [_TEXT], name=_TEXT, domain=f"com.{WORD}", overload=_TEXT)
    inner.attribute.append(helper.make_attribute(WORD, _TEXT))
    inner.attribute.append(helper.make_attribute(f"list of {AUTHOR}", [MAIL, PATH]))
    inner.attribute.append(onnx.AttributeProto(name="referred", ref_attr_name=_TEXT))
    model.functions.append(helper.make_function(WORD, "f", ["a"], ["b"], [inner], [helper.make_opsetid("", 13)]))
    training = model.training_info.add()
    training.algorithm.node.append(inner)
    training.algorithm.name = "t"
    training.algorithm.sparse_initializer.add().values.name = _TEXT
    opaque = graph.value_info.add(name="opaque").type.opaque_type
    opaque.domain, opaque.name = WORD, _TEXT
    model.configuration.add(name=_TEXT, num_devices=1, device=[PATH])
    placed = graph.node[0].device_configurations.add(configuration_id=_TEXT).sharding_spec.add(tensor_name=_TEXT)
    placed.sharded_dim.add().simple_sharding.add(dim_param=WORD)
    model.opset_import.append(helper.make_opsetid(f"com.{WORD}", 1))
    for info in graph.input:
        info.type.denotation = _TEXT
        for size in info.type.tensor_type.shape.dim:
            size.denotation = WORD


def _fill(message: Any) -> None:
    """Put the text into every field for text of a message and of those in it, set or not."""
    for field in message.DESCRIPTOR.fields:
        if field.full_name in _MEANING or (field.containing_oneof and not message.HasField(field.name)):
            continue  # one of several kinds, and it is another
        if field.type == FieldDescriptor.TYPE_STRING:
            if field.is_repeated:
                getattr(message, field.name).append(_TEXT)
            else:
                setattr(message, field.name, _TEXT)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and field.is_repeated:
            values = getattr(message, field.name)
            if field.message_type.name == "StringStringEntryProto":
                if field.name != "external_data" or values:
                    values.add(key=f"author {AUTHOR}", value=_TEXT)
                continue
            for value in values:
                _fill(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and message.HasField(field.name):
            _fill(getattr(message, field.name))


def _rename(model: onnx.ModelProto, new: Callable[[str], str]) -> None:
    graph = model.graph
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new(name) if name else "" for name in names]
    for item in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        item.name = new(item.name)


def fields_of_text(kind: Descriptor = onnx.ModelProto.DESCRIPTOR) -> frozenset[str]:
    """Every field for text or bytes that a message of ONNX or one inside it has, "onnx.NodeProto.name"."""
    waiting, known, found = [kind], {kind.full_name}, set()
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in known:
                known.add(inner.full_name)
                waiting.append(inner)
            elif field.type in _TEXTS:
                found.add(field.full_name)
    return frozenset(found)


def fields_with_secrets(message: Any) -> frozenset[str]:
    """Those fields for text or bytes, in a message and those inside it, that hold a secret."""
    found: set[str] = set()
    for field, value in message.ListFields():
        for one in value if field.is_repeated else (value,):
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                found |= fields_with_secrets(one)
            elif field.type in _TEXTS and found_in(one if isinstance(one, bytes) else one.encode()):
                found.add(field.full_name)
    return frozenset(found)


def found_in(data: bytes, secrets: Sequence[str] = SECRETS) -> set[str]:
    """Which secrets some bytes hold: plain in any case, in UTF-16, in hexadecimal, in base64, compressed."""
    found: set[str] = set()
    for layer in layers(data):
        low = layer.lower()
        for secret in secrets:
            if any(form in low for form in _forms(secret.lower())):
                found.add(secret)
    return found


def _forms(secret: str) -> Iterator[bytes]:
    plain = secret.encode()
    yield plain
    yield plain[::-1]
    yield secret.encode("utf-16-le")
    yield secret.encode("utf-16-be")


_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}")
_HEX = re.compile(rb"[0-9A-Fa-f]{10,}")
_PACKED: Sequence[tuple[bytes, Callable[[bytes], bytes]]] = (
    (b"\x1f\x8b\x08", lambda data: zlib.decompressobj(31).decompress(data)),
    (b"\x78\x01", lambda data: zlib.decompressobj().decompress(data)),
    (b"\x78\x9c", lambda data: zlib.decompressobj().decompress(data)),
    (b"\x78\xda", lambda data: zlib.decompressobj().decompress(data)),
    (b"\xfd7zXZ\0", lambda data: lzma.LZMADecompressor().decompress(data)),
    (b"BZh", lambda data: bz2.BZ2Decompressor().decompress(data)),
)


def layers(data: bytes, depth: int = 3) -> Iterator[bytes]:
    """The bytes, and what is packed in them."""
    yield data
    if not depth:
        return
    for match in _BASE64.finditer(data):
        text = match[0].replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):  # it may begin inside a longer word
            part = text[start:]
            yield from layers(base64.b64decode(part[: len(part) // 4 * 4]), depth - 1 if len(part) > 24 else 0)
    for match in _HEX.finditer(data):
        for start in range(2):
            part = match[0][start:]
            yield binascii.unhexlify(part[: len(part) // 2 * 2])
    for magic, unpack in _PACKED:
        place = data.find(magic)
        while place >= 0:
            try:
                inner = unpack(data[place:])
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError):
                inner = b""
            if inner:
                yield from layers(inner, depth - 1)
            place = data.find(magic, place + 1)


def self_check() -> None:
    """Assert that the search finds what it is meant to find."""
    text = f"see {WORD} there".encode()
    for packed in (
        text, text.upper(), f"see {WORD}".encode("utf-16"), binascii.hexlify(text), base64.b64encode(text),
        b"x" + base64.b64encode(b"abc" + text), b"a" + gzip.compress(text), zlib.compress(text) + b"z",
        lzma.compress(text), bz2.compress(text), base64.b64encode(gzip.compress(text + bytes(99))),
    ):  # fmt: skip
        assert found_in(packed) == {WORD}, packed
    assert found_in(b"nothing of the kind" * 99) == set()
