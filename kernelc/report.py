"""What the compiler says about a program: stage documents, and the payload's config.json for people and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelc.frontend.scrub import rules
from kernelc.graph import Graph, Port
from kernelc.layout.segments import Use
from kernelc.lowering.operands import Operand, PortOperand
from kernelc.lowering.program import Program
from kernelfarm import device
from kernelfarm.digest import Digest
from toolchains.target import Target
from toolchains.tools import tool_identities


def layout_document(program: Program) -> dict[str, Any]:
    """Buffers, aliases and the arena plan."""
    buffers = program.layout.buffers
    return {
        "buffers": {
            name: [b.channels, b.height, b.width, b.lanes, b.left, b.right] for name, b in sorted(buffers.items())
        },
        "roots": dict(program.layout.roots),
        "offsets": dict(program.arena.offsets),
        "arena_bytes": program.arena.bytes,
    }


def schedule_document(program: Program) -> list[dict[str, Any]]:
    """Each kernel call in order: tile, partition, operands."""
    return [
        {
            "name": op.name,
            "kind": op.kind,
            "symbol": op.kernel.symbol,
            "tile": op.kernel.tile,
            "parts": op.kernel.parts,
            "operands": [_operand(operand) for operand in op.operands],
        }
        for op in program.ops
    ]


def configuration(
    program: Program, model_name: str, model: Digest, target: Target, stages: Sequence[tuple[str, Digest]]
) -> dict[str, Any]:
    """The document config.json, schema "payload/1"."""
    graph = program.graph
    return {
        "schema": "payload/1",
        "model": {"name": model_name, "digest": model},
        "target": {"name": target.name, "digest": target.digest},
        "inputs": [_tensor(graph, port) for port in graph.inputs],
        "outputs": [_tensor(graph, port) for port in graph.outputs],
        "scrub": rules.document(*([port.name for port in ports] for ports in (graph.inputs, graph.outputs))),
        "ir_version": device.IR_VERSION,
        "abi_version": device.ABI_VERSION,
        "groups": [
            {
                "name": op.name,
                "kind": op.kind,
                "symbol": op.kernel.symbol,
                "parts": op.kernel.parts,
                "flop": op.kernel.flop,
                "tile": op.kernel.tile,
            }
            for op in program.ops
        ],
        "stages": [{"name": name, "digest": value} for name, value in stages],
        "flop": program.flop,
        "arena_bytes": program.arena.bytes,
        "weights_bytes": len(program.weights.data),
        "tools": {name: {"version": tool.version, "digest": tool.digest} for name, tool in tool_identities().items()},
    }


def _tensor(graph: Graph, port: Port) -> dict[str, Any]:
    tensor = graph.tensors[port.tensor]
    return {"name": port.name, "dtype": tensor.dtype, "shape": list(tensor.static_shape)}


def _operand(operand: Operand) -> str:
    if isinstance(operand, PortOperand):
        return f"{operand.direction} {operand.number}"
    if isinstance(operand, Use):
        return " ".join(operand.key)
    return operand.name
