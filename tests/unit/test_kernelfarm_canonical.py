"""Canonical JSON: the published vectors, and what reading refuses."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import pytest

from kernelfarm import canonical
from kernelfarm.digest import Digest, of_bytes
from kernelfarm.errors import Code, FarmError


def test_the_example_of_rfc_8785_section_3_2_3() -> None:
    value = {
        "€": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "ö": "Latin Small Letter O With Diaeresis",
    }
    keys = [entry.split(b'":"')[0] for entry in canonical.dumps(value)[2:-2].split(b'","')]
    assert keys == [key.encode() for key in ("\\r", "1", "\u0080", "ö", "€", "\U0001f600", "\ufb33")]


@pytest.mark.parametrize(
    ("bits", "text"),  # RFC 8785, appendix B
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555557, "333333333.33333343"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
        (0x43143FF3C1CB0959, "1424953923781206.2"),
    ],
)
def test_doubles_are_written_as_rfc_8785_appendix_b_says(bits: int, text: str) -> None:
    number = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    assert canonical.dumps(number) == text.encode()
    assert canonical.loads(text.encode(), strict=True) == number


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 53, {1: 2}, {"a": b"x"}, "\ud800", {"\ud800": 1}])
def test_a_value_without_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(FarmError) as caught:
        canonical.dumps(value)
    assert caught.value.code is Code.NOT_JSON


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b'{"a":1,"a":1}',
        b'{"b":{"a":1,"a":2}}',
        b"\xff\xfe1\x00",
        b'\xef\xbb\xbf"bom"',
        b'"\xff"',
        b"9007199254740993",
        b"1" * 5000,
        b"[" * 100_000,
    ],
)
def test_what_is_not_json_is_refused_and_the_input_named(data: bytes) -> None:
    with pytest.raises(FarmError) as caught:
        canonical.loads(data, name="index.json")
    assert caught.value.code is Code.JSON_INVALID
    assert caught.value.detail == {"file": "index.json"}


@pytest.mark.parametrize(
    "data", [b'{"a": 1}', b'{"b":1,"a":2}', b"1\n", b"1.0", b"-0", b"1E2", b'"\\u0041"', b'"\\/"', b'"\\ud800"', b"1e2"]
)
def test_strict_reading_takes_canonical_bytes_only(data: bytes) -> None:
    canonical.loads(data)
    with pytest.raises(FarmError) as caught:
        canonical.loads(data, strict=True)
    assert caught.value.code is Code.JSON_NOT_CANONICAL


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    digest: Digest | None
    pair: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Outer:
    SCHEMA: ClassVar[str] = "outer/1"
    name: str
    share: float
    flag: bool
    colour: Colour
    inner: tuple[Inner, ...]
    free: Any = None


NOUN = Outer("n", 1.0, True, Colour.RED, (Inner(None, ("a", 1)), Inner(of_bytes(b""), ("b", 2))), {"k": [1]})
GOOD = canonical.to_json(NOUN)


def test_a_noun_is_an_object_with_its_schema_and_reads_back_equal() -> None:
    assert canonical.encode(NOUN) == (
        b'{"colour":"red","flag":true,"free":{"k":[1]},"inner":[{"digest":null,"pair":["a",1]},{"digest":"sha256:'
        b'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","pair":["b",2]}],"name":"n",'
        b'"schema":"outer/1","share":1}'
    )
    assert canonical.decode(Outer, canonical.encode(NOUN)) == NOUN


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"schema": "outer/2"}, "input"),
        ({"schema": None}, "input"),
        ({"extra": 1}, "input"),
        ({"name": 1}, "input.name"),
        ({"flag": 1}, "input.flag"),
        ({"share": True}, "input.share"),
        ({"share": "1"}, "input.share"),
        ({"colour": "blue"}, "input.colour"),
        ({"inner": {}}, "input.inner"),
        ({"inner": [3]}, "input.inner[0]"),
        ({"inner": [{"digest": None, "pair": ["a"]}]}, "input.inner[0].pair"),
        ({"inner": [{"digest": None, "pair": ["a", True]}]}, "input.inner[0].pair[1]"),
        ({"inner": [{"pair": ["a", 1]}]}, "input.inner[0]"),
    ],
)
def test_a_value_that_does_not_match_is_refused_and_its_place_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(FarmError) as caught:
        canonical.from_json(Outer, {**GOOD, **change})
    assert caught.value.code is Code.SCHEMA_MISMATCH
    assert caught.value.detail == {"at": place}


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(FarmError) as caught:
        canonical.from_json(Outer, {key: value for key, value in GOOD.items() if key != "flag"})
    assert (caught.value.code, caught.value.why) == (Code.SCHEMA_MISMATCH, "missing field 'flag'")
