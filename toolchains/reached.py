"""Which source files the code behind some names of a module comes from, by the debug information of its LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

_DEFINED = re.compile(r"^define .*?(@(?:\"[^\"]*\"|[\w.$-]+))\(.*?^\}$", re.MULTILINE | re.DOTALL)
_GIVEN = re.compile(r"^(@(?:\"[^\"]*\"|[\w.$-]+)) = .*$", re.MULTILINE)
_NODE = re.compile(r"^(!\d+) = .*$", re.MULTILINE)
_NAMES = re.compile(r"@(?:\"[^\"]*\"|[\w.$-]+)")
_NODES = re.compile(r"!\d+")
_NO_CODE = re.compile(r"\b(?:unit|type|retainedNodes|baseType|elements): !\d+")
"""What leads from the description of code to that of the module, of types and of variables, which hold none."""
_FILE = re.compile(r'!DIFile\(filename: "([^"]*)", directory: "([^"]*)"')


def files(ir: str, names: Collection[str] | None = None) -> frozenset[tuple[str, str]]:
    """The files, as (name, folder), that debug information names.

    With `names` only those that the code of these functions comes from, and of all that they lead to: by calls, by
    addresses, through constants, inlined.
    """
    if names is None:
        return frozenset(_FILE.findall(ir))
    bodies = {match[1]: match[0] for pattern in (_GIVEN, _DEFINED) for match in pattern.finditer(ir)}
    nodes = {match[1]: match[0] for match in _NODE.finditer(ir)}
    code = _closure((f"@{name}" for name in names), lambda name: _NAMES.findall(bodies.get(name, "")))
    first = {node for name in code for node in _NODES.findall(bodies.get(name, ""))}
    told = _closure(first, lambda node: _NODES.findall(_NO_CODE.sub("", nodes.get(node, ""))))
    return frozenset(file for node in told for file in _FILE.findall(nodes.get(node, "")))


def _closure(first: Iterable[str], leads_to: Callable[[str], Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(first)
    while waiting:
        item = waiting.pop()
        if item not in found:
            found.add(item)
            waiting += leads_to(item)
    return found
