"""The Media dialect: the table of operations, their types, and graphs as MLIR text and back."""

from __future__ import annotations

from collections.abc import Mapping

from kernelc.graph import Graph
from kernelfarm.digest import Digest

__all__ = ["parse", "to_text"]


def to_text(graph: Graph) -> str:
    """The graph as text; see `kernelc.media.printer.to_text`."""
    from kernelc.media import printer  # here: it loads MLIR, which users of the table and the rules do not need

    return printer.to_text(graph)


def parse(text: str, weights: Mapping[Digest, bytes]) -> Graph:
    """The graph that a text describes; see `kernelc.media.reader.parse`."""
    from kernelc.media import reader

    return reader.parse(text, weights)
