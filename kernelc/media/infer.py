"""Type of an operation's result: structure and attributes by the table of operations, then the operation's own rule."""

from __future__ import annotations

from kernelc.graph import Node
from kernelc.media import rules_data, rules_math, rules_resize, rules_window
from kernelc.media.call import Call, Illegal, Rule, Shape, Undetermined, require
from kernelc.media.ops import OPS, AttrDef, OpDef
from kernelc.symbols import ShapeTooComplex

RULES: dict[str, Rule] = {
    **rules_math.RULES,
    **rules_window.RULES,
    **rules_data.RULES,
    **rules_resize.RULES,
}
MAX_RANK = 8
"""Ranks above this are refused: the device's table of tensors has eight sizes."""
MAX_INT = 2**63 - 1


def result_type(call: Call) -> tuple[str, Shape]:
    """Element type and shape of the result.

    Raises `Illegal` where the operation breaks a rule, `Undetermined` where its type depends on something unknown.
    """
    definition = OPS.get(call.node.op)
    if definition is None or not definition.is_node:
        raise Illegal(f"there is no operation {call.node.op!r}")
    _check_operands(definition, call)
    check_attributes(definition, call.node)
    try:
        dtype, shape = RULES[call.node.op](call)
    except ShapeTooComplex as reason:
        raise Undetermined(str(reason)) from reason
    require(len(shape) <= MAX_RANK, f"a result of rank {len(shape)} is over the limit of {MAX_RANK}")
    return dtype, shape


def check_attributes(definition: OpDef, node: Node) -> None:
    """Raise `Illegal` unless the node has exactly the attributes of its definition, each of its kind and range."""
    wanted = {attr.name for attr in definition.attrs}
    given = [name for name, _ in node.attrs]
    for name in sorted(set(given) - wanted):
        raise Illegal(f"{name!r} is not an attribute of {node.op}")
    require(len(given) == len(set(given)), "an attribute is given twice")
    for attr in definition.attrs:
        require(attr.name in given, f"attribute {attr.name!r} is missing")
        _check_attribute(attr, node.attr(attr.name))


def _check_operands(definition: OpDef, call: Call) -> None:
    least, most = definition.arity
    count = len(call.tensors)
    require(count >= least, f"{count} operands; {definition.name} takes {least} at least")
    require(most is None or count <= most, f"{count} operands; {definition.name} takes {most} at most")
    dtype = call.tensors[0].dtype
    allowed = ", ".join(sorted(definition.dtypes))
    require(dtype in definition.dtypes, f"the first operand is {dtype}; {definition.name} takes {allowed}")


def _check_attribute(attr: AttrDef, value: object) -> None:
    if attr.kind == "text":
        require(isinstance(value, str), f"{attr.name} must be a string")
        listed = not attr.choices or value in attr.choices
        require(listed, f"{attr.name} is {value!r}; it must be one of {', '.join(attr.choices)}")
        return
    if attr.kind == "real":
        require(isinstance(value, float), f"{attr.name} must be an f64")
        return
    numbers = value if attr.kind == "ints" else (value,)
    require(isinstance(numbers, tuple), f"{attr.name} must be a list of i64")
    assert isinstance(numbers, tuple)
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    require(whole, f"{attr.name} must be of i64")
    if attr.length is not None:
        require(len(numbers) == attr.length, f"{attr.name} has {len(numbers)} numbers; it must have {attr.length}")
    for number in numbers:
        require(attr.least is None or number >= attr.least, f"{attr.name} is {number}; the least is {attr.least}")
        require(attr.most is None or number <= attr.most, f"{attr.name} is {number}; the most is {attr.most}")
        require(abs(number) <= MAX_INT, f"{attr.name} is {number}: too large")
