"""The entry table of a kernel object as C source against runtime/include/kf_abi.h."""

from __future__ import annotations

from collections.abc import Iterable

from kernelc.graph import Port
from kernelc.layout.segments import Use
from kernelc.lowering.llvm import TILE_TYPE
from kernelc.lowering.operands import Operand, PortOperand
from kernelc.lowering.program import Program

MAX_RANK = 8


def table_source(program: Program) -> str:
    """C source that defines `kf_table`, for the kernels and the plan of `program`."""
    symbols = list(program.kernels)
    graph = program.graph
    ports = [(port, direction) for direction, group in enumerate((graph.inputs, graph.outputs)) for port in group]
    strings = b"".join(port.name.encode() for port, _ in ports)
    operands = [line for op in program.ops for line in _operands(program, op.operands)]
    sizes = {"f": len(symbols), "o": len(program.ops), "p": len(operands), "n": len(ports), "s": max(1, len(strings))}
    return "\n".join([
        '#include "kf_abi.h"',
        "",
        *(f"extern kf_tile {symbol};" for symbol in symbols),
        "",
        "struct image {",
        "    struct kf_table t;",
        f"    struct kf_function f[{sizes['f']}];",
        f"    struct kf_op o[{sizes['o']}];",
        f"    struct kf_operand p[{sizes['p']}];",
        f"    struct kf_tensor n[{sizes['n']}];",
        f"    unsigned char s[{sizes['s']}];",
        "};",
        "",
        '__attribute__((visibility("default"), aligned(64))) extern const struct image kf_table;',
        "const struct image kf_table = {",
        "    .t = {",
        *_header(program, sizes),
        "    },",
        "    .f = {",
        *(f"        {{0x{_fnv(symbol):016x}u, {TILE_TYPE}u, 0, {{.fn = {symbol}}}}}," for symbol in symbols),
        "    },",
        "    .o = {",
        *_ops(program, symbols),
        "    },",
        "    .p = {",
        *operands,
        "    },",
        "    .n = {",
        *_tensors(program, ports),
        "    },",
        f"    .s = {{{', '.join(str(byte) for byte in strings) or '0'}}},",
        "};",
        "",
    ])  # fmt: skip


def _header(program: Program, sizes: dict[str, int]) -> Iterable[str]:
    fields = {
        "magic": "KF_TABLE_MAGIC",
        "bytes": "sizeof(struct image)",
        "abi_version": "KF_ABI_VERSION",
        "ir_version": "KF_IR_VERSION",
        "n_functions": sizes["f"],
        "n_ops": sizes["o"],
        "n_operands": sizes["p"],
        "n_tensors": sizes["n"],
        "off_functions": "__builtin_offsetof(struct image, f)",
        "off_ops": "__builtin_offsetof(struct image, o)",
        "off_operands": "__builtin_offsetof(struct image, p)",
        "off_tensors": "__builtin_offsetof(struct image, n)",
        "off_strings": "__builtin_offsetof(struct image, s)",
        "n_strings": sizes["s"],
        "arena_bytes": program.arena.bytes,
        "weights_bytes": len(program.weights.data),
        "scratch_bytes": 0,
        "alignment": "KF_ALIGNMENT",
    }
    return [f"        .{name} = {value}," for name, value in fields.items()]


def _ops(program: Program, symbols: list[str]) -> Iterable[str]:
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    first = 0
    for op in program.ops:
        number = numbers[op.kernel.symbol]
        yield f"        {{{number}, {first}, {len(op.operands)}, 0, {op.kernel.parts}}}, /* {op.name} */"
        first += len(op.operands)


def _operands(program: Program, operands: tuple[Operand, ...]) -> Iterable[str]:
    for operand in operands:
        if isinstance(operand, PortOperand):
            ports = program.graph.inputs if operand.direction == "input" else program.graph.outputs
            size = program.graph.tensors[ports[operand.number].tensor].bytes
            space = "KF_INPUT" if operand.direction == "input" else "KF_OUTPUT"
            yield f"        {{{space}, {operand.number}, 0, {size}}},"
        elif isinstance(operand, Use):
            segment = program.weights.segments[operand.key]
            yield f"        {{KF_WEIGHTS, 0, {segment.offset}, {segment.bytes}}},"
        else:
            buffer = program.layout.buffers[operand.name]
            yield f"        {{KF_ARENA, 0, {program.arena.offsets[operand.name]}, {buffer.bytes}}},"


def _tensors(program: Program, ports: list[tuple[Port, int]]) -> Iterable[str]:
    offset = 0
    for port, direction in ports:
        tensor = program.graph.tensors[port.tensor]
        length = len(port.name.encode())
        dims = ", ".join(str(size) for size in tensor.static_shape) or "0"
        head = f"{offset}, {length}, KF_F32, {len(tensor.static_shape)}, {'KF_OUT' if direction else 'KF_IN'}, 0"
        yield f"        {{{head}, {{{dims}}}, {tensor.bytes}, {{0}}}},"
        offset += length


def _fnv(text: str) -> int:
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value
