"""The error for a form of an operator that the backend does not lower."""

from __future__ import annotations

from kernelc.graph import Node
from kernelfarm.errors import Code, FarmError


def refused(node: Node, why: str) -> FarmError:
    """The error to raise: it names the node, its operator and the reason."""
    return FarmError(
        Code.OPERATOR_NOT_LOWERED,
        f"the node {node.name} (media.{node.op}) cannot be lowered",
        why,
        "Rewrite this part of the model, or ask for the form: docs/how-to/add-an-operator.md says what it takes.",
        where(node),
    )


def where(node: Node) -> dict[str, str]:
    """The detail of an error about a node."""
    return {"node": node.name, "op": node.op}
