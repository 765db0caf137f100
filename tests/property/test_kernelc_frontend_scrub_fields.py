"""Any field of a model that can hold a text, found by ONNX's own descriptors: what is put there is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from kernelc.frontend.scrub.rewrite import scrub
from kernelc.frontend.scrub.secrets import Secrets

SECRET = "Falkenhorst"
TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
Way = tuple[FieldDescriptor, ...]
WORDED = {"onnx.ValueInfoProto.name"}


def ways(kind: Descriptor = onnx.ModelProto.DESCRIPTOR, depth: int = 5) -> Iterator[Way]:
    """Every way of at most so many steps from a model to a field that holds text or bytes."""
    for field in kind.fields:
        if field.type in TEXT:
            yield (field,)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and depth > 1:
            yield from ((field, *rest) for rest in ways(field.message_type, depth - 1))


ALL = tuple(ways())
MESSAGES = tuple(dict.fromkeys(way[:-1] for way in ALL))


def walked(model: onnx.ModelProto, way: Way) -> Any:
    """The message at the end of a way, made with all on the way to it."""
    place: Any = model
    for step in way:
        place = getattr(place, step.name).add() if step.is_repeated else getattr(place, step.name)
        place.SetInParent()
        if step.message_type.name == "AttributeProto":
            place.type = onnx.AttributeProto.STRING
    return place


def planted_in(way: Way, unknown: bytes) -> onnx.ModelProto:
    """A model that holds nothing but a field which ONNX does not know, in the message at the end of a way."""
    model = onnx.ModelProto()
    walked(model, way).MergeFromString(unknown)
    return model


def planted(way: Way) -> onnx.ModelProto:
    """A model that holds nothing but the secret at the end of a way."""
    model = onnx.ModelProto()
    place = walked(model, way[:-1])
    last, value = way[-1], SECRET if way[-1].type == FieldDescriptor.TYPE_STRING else SECRET.encode()
    if last.is_repeated:
        getattr(place, last.name).append(value)
    else:
        setattr(place, last.name, value)
    return model


@pytest.mark.parametrize("words", [(), (SECRET,)], ids=["unlisted", "listed"])
def test_a_secret_in_any_one_field_is_gone(words: tuple[str, ...]) -> None:
    for way in ALL:
        model = planted(way)
        assert SECRET.encode() in model.SerializeToString()

        left = scrub(model, Secrets.of(words)).model.SerializeToString()

        kept = not words and way[-1].full_name in WORDED  # only a list can tell
        assert kept or SECRET.encode() not in left, [step.full_name for step in way]


def test_there_are_many_such_fields() -> None:
    assert len(ALL) > 300
    assert {way[-1].full_name for way in ALL} >= {
        "onnx.ModelProto.producer_name", "onnx.StringStringEntryProto.value", "onnx.NodeProto.name",
        "onnx.TensorProto.name", "onnx.GraphProto.doc_string", "onnx.OperatorSetIdProto.domain",
    }  # fmt: skip


@given(st.binary(max_size=60), st.sampled_from(MESSAGES))
def test_fields_that_onnx_does_not_know_are_gone(text: bytes, way: Way) -> None:
    secret = SECRET.encode() + text
    model = planted_in(way, b"\xfa\x3f" + bytes([len(secret)]) + secret)  # field 1023, of so many bytes
    assert secret in model.SerializeToString()

    assert secret not in scrub(model, Secrets()).model.SerializeToString()
