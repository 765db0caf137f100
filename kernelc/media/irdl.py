"""IRDL text of the Media dialect, made from the table of operations."""

from __future__ import annotations

from kernelc.media.ops import OPS, AttrKind, OpDef

_ATTR_BASE: dict[AttrKind, str] = {
    "int": "#builtin.integer",
    "real": "#builtin.float",
    "ints": "#builtin.dense_array",
    "text": "#builtin.string",
}
_TENSOR = 'irdl.base "!builtin.tensor"'


def irdl_text() -> str:
    """The dialect as an IRDL module: structure of operands, attributes and results; sizes are `verify`'s matter."""
    body = "".join(_operation(OPS[name]) for name in sorted(OPS))
    return f"irdl.dialect @media {{\n{body}}}\n"


def _operation(definition: OpDef) -> str:
    # Every use of one constraint value must match the same type, so that each operand gets a constraint of its own.
    kinds = [(name, "") for name in definition.operands]
    kinds += [(name, "optional ") for name in definition.optional]
    kinds += [(definition.variadic, "variadic ")] if definition.variadic else []
    lines = [f"    %{name} = {_TENSOR}" for name, _ in kinds] + [f"    %result = {_TENSOR}"]
    lines += [f'    %attr_{attr.name} = irdl.base "{_ATTR_BASE[attr.kind]}"' for attr in definition.attrs]
    if kinds:
        lines.append("    irdl.operands(" + ", ".join(f"{name}: {kind}%{name}" for name, kind in kinds) + ")")
    lines.append("    irdl.results(result: %result)")
    if definition.attrs:
        pairs = ", ".join(f'"{attr.name}" = %attr_{attr.name}' for attr in definition.attrs)
        lines.append(f"    irdl.attributes {{{pairs}}}")
    text = "\n".join(lines)
    return f"  irdl.operation @{definition.name} {{\n{text}\n  }}\n"
