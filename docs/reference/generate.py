"""Writes the reference pages that the code knows best.  `python docs/reference/generate.py`; a test compares them."""

from __future__ import annotations

from pathlib import Path

from kernelc.frontend import operators as onnx_operators  # registers the handlers
from kernelc.frontend.operators import registry
from kernelc.fusion.capability import EPILOGUE
from kernelc.media.ops import OPS
from kernelfarm.errors import Code, Status

HERE = Path(__file__).resolve().parent


def errors() -> str:
    """errors.md: every code with its exit status."""
    lines = ["# Errors", "", "Every error has a code, what happened, why, what to do next, and an exit status.", ""]
    lines += [f"- `{status.value}` {status.name.lower()}" for status in Status]
    lines += ["", "| code | name | exit status | what |", "|---|---|---|---|"]
    for code in sorted(Code, key=lambda code: code.number):
        lines.append(f"| {code.number} | `{code.name}` | {code.status.value} | {code.title} |")
    return "\n".join(lines) + "\n"


def operators() -> str:
    """operators.md: the ONNX operators that are read, and the operations of the Media dialect."""
    lines = ["# Operators", "", "[Where onnxruntime answers otherwise](onnxruntime.md).", ""]
    lines += ["## ONNX operators that are read", "", "| operator | handled from opset |", "|---|---|"]
    assert onnx_operators
    lines += [f"| {name} | {', '.join(map(str, registry.versions_of(name)))} |" for name in registry.supported()]
    lines += [
        "",
        "## Operations of the Media dialect",
        "",
        "`epilogue`: fused behind the operation that makes its operand.",
        "",
    ]
    lines += ["| operation | operands | attributes | meaning | |", "|---|---|---|---|---|"]
    for name, op in sorted(OPS.items()):
        operands = [*op.operands, *(f"{one}?" for one in op.optional), *([f"{op.variadic}..."] if op.variadic else [])]
        attributes = ", ".join(attribute.name for attribute in op.attrs)
        role = "epilogue" if name in EPILOGUE else ""
        lines.append(f"| `media.{name}` | {', '.join(operands)} | {attributes} | {op.doc} | {role} |")
    return "\n".join(lines) + "\n"


PAGES = {"errors.md": errors, "operators.md": operators}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
