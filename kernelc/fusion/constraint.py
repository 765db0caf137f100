"""The language of a rule's constraints: comparisons, boolean and arithmetic operators over facts of matched operations.

It is written as Python writes expressions and is checked before it is kept, by form and by kind of value; evaluation
walks the checked tree. It is total: a fact that is not known makes a constraint not hold, nothing raises or loops.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

MAX_TEXT = 300
MAX_INTEGER = 2**63

Kind = Literal["number", "text", "list", "flag", "any"]
"""What a value is; "any" is that of an attribute of an operation that the dialect lacks."""

Fact = int | float | str | bool | tuple[Any, ...] | None
"""Value of a name's attribute; None where it is not known."""

KindOf = Callable[[str, str], Kind]
"""kind_of(name, attribute); raises `Faulty` where there is no such name or attribute."""


class Faulty(ValueError):
    """The text is not a constraint; `offset` characters into it is where."""

    def __init__(self, reason: str, offset: int = 0) -> None:
        super().__init__(reason)
        self.offset = offset


class _Unknown(Exception):
    """A value that the constraint needs is not known."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A checked constraint: `text` as it was written, `names` those of the operations it speaks of."""

    text: str
    names: tuple[str, ...]
    tree: ast.expr = field(compare=False, repr=False)

    def objection(self, bound: Mapping[str, Sequence[Mapping[str, Fact]]]) -> str | None:
        """Why it does not hold, None where it does.

        `bound` has the facts of each operation that a name stands for: several where a step repeats, where it must hold
        for every one, none where an optional step is absent, where it says nothing.
        """
        for facts in itertools.product(*(bound[name] for name in self.names)):
            known = dict(zip(self.names, facts, strict=True))
            try:
                holds = bool(_value(self.tree, known))
            except (_Unknown, ZeroDivisionError, OverflowError):
                holds = False
            if not holds:
                return f'"{self.text}" does not hold: {", ".join(_found(self.tree, known))}'
        return None


def parse(text: str, kind_of: KindOf) -> Constraint:
    """The constraint that `text` writes; raises `Faulty`."""
    if len(text) > MAX_TEXT:
        raise Faulty(f"it is longer than {MAX_TEXT} characters", MAX_TEXT)
    odd = next((index for index, sign in enumerate(text) if not " " <= sign <= "~" or sign == "\\"), None)
    if odd is not None:
        raise Faulty(f"{text[odd]!a} is not part of the language", odd)
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as reason:
        raise Faulty(f"it is not an expression: {reason.msg}", (reason.offset or 1) - 1) from None
    except (ValueError, RecursionError, MemoryError):
        raise Faulty("it is nested too deeply") from None
    _require(tree, _kind(tree, kind_of), "flag", "a constraint")
    return Constraint(text, tuple(sorted({name for name, _ in _facts(tree)})), tree)


def _facts(tree: ast.expr) -> set[tuple[str, str]]:
    """Names and attributes of all facts that an expression speaks of."""
    return {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUAL: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _kind(node: ast.expr, kind_of: KindOf) -> Kind:
    """Kind of the value of an expression whose form is allowed all through; raises `Faulty`."""
    match node:
        case ast.Constant(value=value):
            return _kind_of_constant(node, value)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            try:
                return kind_of(name, attribute)
            except Faulty as reason:
                raise Faulty(str(reason), node.col_offset) from None
        case ast.BoolOp(values=values):
            for value in values:
                _require(value, _kind(value, kind_of), "flag", "an operand of and, or")
            return "flag"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _require(operand, _kind(operand, kind_of), "flag", "the operand of not")
            return "flag"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _require(operand, _kind(operand, kind_of), "number", "the operand of -")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            for value in (left, right):
                _require(value, _kind(value, kind_of), "number", "an operand of arithmetic")
            return "number"
        case ast.Compare():
            return _kind_of_comparison(node, kind_of)
        case ast.Subscript(value=value, slice=index):
            _require(value, _kind(value, kind_of), "list", "what is indexed")
            _require(index, _kind(index, kind_of), "number", "an index")
            return "number"
        case ast.Tuple(elts=items) | ast.List(elts=items):
            for item in items:
                if not isinstance(item, ast.Constant | ast.UnaryOp):
                    raise Faulty("a list holds constants only", item.col_offset)
                _kind(item, kind_of)
            return "list"
        case ast.Name(id=name):
            raise Faulty(f"{name} stands for an operation; write {name}.FACT", node.col_offset)
    raise Faulty(f"{type(node).__name__} is not part of the language", node.col_offset)


def _kind_of_constant(node: ast.Constant, value: object) -> Kind:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, float) or (isinstance(value, int) and value < MAX_INTEGER):
        return "number"
    if isinstance(value, str):
        return "text"
    raise Faulty(f"{value!r:.40} is not a number, a text or a flag", node.col_offset)


def _kind_of_comparison(node: ast.Compare, kind_of: KindOf) -> Kind:
    left = _kind(node.left, kind_of)
    for op, value in zip(node.ops, node.comparators, strict=True):
        right = _kind(value, kind_of)
        if type(op) in _ORDER:
            _require(value, right, "number", "the right side of a comparison by size")
            _require(value, left, "number", "the left side of a comparison by size")
        elif isinstance(op, ast.In | ast.NotIn):
            _require(value, right, "list", "what stands after in")
        elif type(op) not in _EQUAL:
            raise Faulty(f"{type(op).__name__} is not part of the language", value.col_offset)
        elif left != right and "any" not in (left, right):
            raise Faulty(f"a {left} is never equal to a {right}", value.col_offset)
        left = right
    return "flag"


def _require(node: ast.expr, found: Kind, wanted: Kind, what: str) -> Kind:
    if found not in (wanted, "any"):
        raise Faulty(f"{what} must be a {wanted}, not a {found}", node.col_offset)
    return wanted


def _value(node: ast.expr, known: Mapping[str, Mapping[str, Fact]]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            fact = known[name].get(attribute)
            if fact is None:
                raise _Unknown
            return fact
        case ast.BoolOp(op=op, values=values):
            results = (bool(_value(value, known)) for value in values)
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.UnaryOp(op=op, operand=operand):
            return not _value(operand, known) if isinstance(op, ast.Not) else -_number(_value(operand, known))
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(_value(left, known)), _number(_value(right, known)))
        case ast.Compare():
            return _compare(node, known)
        case ast.Subscript(value=value, slice=index):
            items, place = _value(value, known), _value(index, known)
            if not isinstance(place, int) or not isinstance(items, tuple) or not -len(items) <= place < len(items):
                raise _Unknown
            return items[place]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_value(item, known) for item in items)
    raise AssertionError(f"{type(node).__name__} was let through")


def _compare(node: ast.Compare, known: Mapping[str, Mapping[str, Fact]]) -> bool:
    left = _value(node.left, known)
    for op, side in zip(node.ops, node.comparators, strict=True):
        right = _value(side, known)
        if type(op) in _ORDER:
            holds = _ORDER[type(op)](_number(left), _number(right))
        elif isinstance(op, ast.In | ast.NotIn):
            holds = (left in right) == isinstance(op, ast.In) if isinstance(right, tuple) else False
        else:
            holds = _EQUAL[type(op)](left, right)
        if not holds:
            return False
        left = right
    return True


def _number(value: Any) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _Unknown


def _found(tree: ast.expr, known: Mapping[str, Mapping[str, Fact]]) -> Iterator[str]:
    """The facts that the constraint speaks of, as they are."""
    for name, attribute in sorted(_facts(tree)):
        fact = known[name].get(attribute)
        yield f"{name}.{attribute} is {'not known' if fact is None else _text(fact)}"


def _text(fact: Fact) -> str:
    return "x".join(map(str, fact)) or "scalar" if isinstance(fact, tuple) else str(fact)
