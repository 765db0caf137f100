"""Rule files in YAML, of which JSON is a part, as documents. The only user of PyYAML.

Only plain data is read: anchors, aliases and tags, which could make a small file large or a value of any class, are
refused, and so is a key that occurs twice.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from kernelc.fusion.document import Document, Path, error_at
from kernelfarm.errors import Code

MAX_BYTES = 1 << 20
MAX_DEPTH = 12
MAX_EVENTS = 50_000
"""Values, and beginnings and ends of lists and mappings: twice what as many rules as may be need.

PyYAML reads that many in seconds, and a megabyte of them in most of a minute.
"""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def read(data: bytes, name: str) -> Document:
    """The document that a file holds; `name` is the file's, for messages. Raises `FarmError` RULE_FILE_INVALID."""
    if len(data) > MAX_BYTES:
        raise error_at(Code.RULE_FILE_INVALID, name, None, "a rule file is too large", f"more than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as reason:
        place = _place_after(data[: reason.start].decode("utf-8"))
        raise error_at(Code.RULE_FILE_INVALID, name, place, "a rule file is not UTF-8", reason.reason) from None
    places: dict[Path, tuple[int, int]] = {}
    try:
        _refuse_references(text, name)
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None:
            raise error_at(Code.RULE_FILE_INVALID, name, (1, 1), "a rule file is empty", "it has no document")
        return Document(name, _plain(node, (), name, places), places)
    except yaml.MarkedYAMLError as reason:
        mark = reason.problem_mark or reason.context_mark
        why = ", ".join(part for part in (reason.context, reason.problem) if part)
        raise error_at(Code.RULE_FILE_INVALID, name, _place(mark), "a rule file does not parse", why) from None
    except yaml.reader.ReaderError as reason:
        place = _place_after(text[: reason.position])
        raise error_at(Code.RULE_FILE_INVALID, name, place, "a rule file does not parse", reason.reason) from None
    except (ValueError, OverflowError) as reason:  # an escape beyond Unicode: PyYAML does not say where
        raise error_at(Code.RULE_FILE_INVALID, name, None, "a rule file does not parse", str(reason)) from None


def _refuse_references(text: str, name: str) -> None:
    depth = 0
    for count, event in enumerate(yaml.parse(text, yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        refused = ""
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            refused = "anchors and aliases are not allowed"
        elif getattr(event, "tag", None):
            refused = "tags are not allowed"
        elif depth > MAX_DEPTH:
            refused = f"it is nested more than {MAX_DEPTH} deep"
        elif count > MAX_EVENTS:
            refused = f"it holds more than {MAX_EVENTS} values"
        if refused:
            place = _place(event.start_mark)
            raise error_at(Code.RULE_FILE_INVALID, name, place, "a rule file is not plain data", refused)


def _plain(node: Any, path: Path, name: str, places: dict[Path, tuple[int, int]]) -> Any:
    places[path] = _place(node.start_mark, quoted=getattr(node, "style", None) in ("'", '"'))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, index), name, places) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            why = ""
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                why = "a key must be a text"
            elif key.value in found:
                why = f"the key {key.value!r} occurs twice"
            if why:
                place = _place(key.start_mark)
                raise error_at(Code.RULE_FILE_INVALID, name, place, "a rule file is not plain data", why)
            found[key.value] = _plain(value, (*path, key.value), name, places)
        return found
    if node.start_mark.line != node.end_mark.line:
        why = "a text must lie on one line"
        raise error_at(Code.RULE_FILE_INVALID, name, places[path], "a rule file is not plain data", why)
    kind = node.tag.rsplit(":", 1)[-1]
    if kind == "int" and _NUMBER.fullmatch(node.value):  # any other form, such as an octal one, stays a text
        return int(node.value)
    if kind == "bool" and node.value in ("true", "false"):
        return node.value == "true"
    return None if kind == "null" else node.value


def _place_after(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _place(mark: Any, *, quoted: bool = False) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1 + quoted
