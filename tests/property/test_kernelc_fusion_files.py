"""Whatever a rule file holds, it is read, or refused with a code, a file, a line and a column."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelc.fusion import library, schema, yaml_file
from kernelc.fusion.rule import Rule
from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError

RULE_CODES = {Code.RULE_FILE_INVALID, Code.RULE_INVALID, Code.RULE_CONSTRAINT}
PLAIN = b"""\
fusion_rules:
  - {name: mine, benefit: 9, pattern: [{op: conv}, {op: [relu, onnx.Gelu], optional: true}, {op: clip}]}
  - name: other
    pattern: [{op: pointwise, name: first}, {op: pointwise, name: then, repeat: 3}]
    constraints: ["first.channels % 8 == 0 and then.op != 'div'"]
"""
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
WORDS = st.sampled_from(
    ["fusion_rule", "fusion_rules", "name", "pattern", "op", "conv", "clip", "constraints", "repeat"]
)
DOCUMENTS = st.recursive(
    LEAVES | WORDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)


def _read(data: bytes) -> tuple[Rule, ...] | None:
    """The rules, or None where they were refused as they should be."""
    try:
        return schema.rules_of(yaml_file.read(data, "x.yaml"))
    except FarmError as error:
        assert error.code in RULE_CODES
        assert error.detail["file"] == "x.yaml"
        lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\xc2\x85") + data.count(b"\xe2\x80") + 1
        assert 1 <= error.detail["line"] <= lines + 1
        assert error.detail["column"] >= 1
        return None


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
@example(b'a: "\\U00110000"')
@example(b"%TAG ! x\n---\n!a b")
@settings(max_examples=300)
def test_bytes_are_a_document_or_refused(data: bytes) -> None:
    _read(data)


@given(DOCUMENTS)
@settings(max_examples=200)
def test_any_document_is_rules_or_refused(value: Any) -> None:
    try:
        data = canonical.dumps(value)
    except FarmError:
        return
    _read(data)


@given(st.integers(0, len(PLAIN) - 1), st.binary(max_size=3), st.integers(0, 4))
@settings(max_examples=300)
def test_a_damaged_file_is_refused_or_still_rules(place: int, put: bytes, cut: int) -> None:
    rules = _read(PLAIN[:place] + put + PLAIN[place + cut :])
    if rules is not None:
        assert library.from_json(library.to_json(rules), "rules.json") == rules
