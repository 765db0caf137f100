"""Canonical JSON is one byte string per value, for every value."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)


@given(values(SCALARS | NUMBERS))
def test_what_is_written_reads_back_equal_and_writes_the_same(value: Any) -> None:
    data = canonical.dumps(value)
    again = canonical.loads(data, strict=True)
    assert again == value
    assert canonical.dumps(again) == data


@given(st.dictionaries(TEXT, SCALARS))
def test_the_order_of_keys_means_nothing(value: dict[str, Any]) -> None:
    assert canonical.dumps(dict(reversed(value.items()))) == canonical.dumps(value)


@given(st.binary())
def test_any_bytes_give_a_value_or_a_coded_error(data: bytes) -> None:
    try:
        value = canonical.loads(data, strict=True)
    except FarmError as error:
        assert error.code in (Code.JSON_INVALID, Code.JSON_NOT_CANONICAL)
    else:
        assert canonical.dumps(value) == data
