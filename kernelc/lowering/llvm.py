"""From a kernel's MLIR text to the LLVM IR text of one object: passes, and what MLIR cannot say, added to the text.

MLIR 22 drops KCFI types, has no per-function CPU for functions that it lowers, and writes no module flags for the
control-flow notes. LTO of bare IR once silently fell back to 128-bit code, hence the attributes on every function.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from kernelc import mlir
from kernelc.lowering.kernel import FUNCTION, Kernel
from kernelc.lowering.steps import with_maximum
from kernelc.schedule.sequence import MEMORY, memory_sequence, with_sequence
from kernelfarm.errors import Code, FarmError
from toolchains import ir
from toolchains.target import Target

LARGEST_VECTOR = 2048
"""Elements of the largest vector that may reach LLVM: a larger one means an untiled tensor and minutes in LLVM."""

TILE_TYPE = 1774936839
"""KCFI id of void(void *, int64_t, int64_t) with normalised integers; the same number on every target."""

_HOIST = "func.func(loop-invariant-subset-hoisting),canonicalize,cse,loop-invariant-code-motion"
MIDDLE = (
    # One round per loop level that carries an accumulator (channel, block, kernel column, kernel row) and one to spare:
    # a value that is not a vector by then would become an allocation.
    mlir.Stage(
        "hoisted",
        f"builtin.module(canonicalize,cse,loop-invariant-code-motion,{','.join([_HOIST] * 5)},canonicalize,cse)",
    ),
    mlir.Stage(
        "bufferised",
        "builtin.module(one-shot-bufferize{bufferize-function-boundaries=true"
        " function-boundary-type-conversion=identity-layout-map},canonicalize,cse,drop-equivalent-buffer-results,"
        "func.func(buffer-loop-hoisting,promote-buffers-to-stack{max-alloc-size-in-bytes=4096}))",
    ),
)
_SCHEDULE = "transform.named_sequence"
_BEFORE_VECTORS = (
    "func.func(lower-vector-mask),func.func(convert-vector-to-scf{full-unroll=true}),canonicalize,cse,"
    "func.func(lower-vector-multi-reduction),expand-strided-metadata,lower-affine,convert-scf-to-cf"
)


def stages(index_bits: int) -> tuple[mlir.Stage, ...]:
    """All passes from a kernel's text to the llvm dialect, for indices of 64 or 32 bits.

    convert-vector-to-llvm computes addresses in 64 bits, whatever the index is. With 32 bits the transform sequence
    `memory_sequence`, which must then stand in the text, lowers loads and stores before it.
    """
    narrow = index_bits != 64
    bits = f"{{index-bitwidth={index_bits}}}" if narrow else ""
    function = "use-bare-ptr-memref-call-conv=true" + (f" index-bitwidth={index_bits}" if narrow else "")
    rest = (
        "convert-vector-to-llvm{vector-transpose-lowering=shuffle16x16 reassociate-fp-reductions=true},"
        f"convert-math-to-llvm,finalize-memref-to-llvm{bits},convert-func-to-llvm{{{function}}},"
        f"convert-arith-to-llvm{bits},convert-index-to-llvm{bits},convert-cf-to-llvm{bits},"
        "convert-ub-to-llvm,reconcile-unrealized-casts,canonicalize,cse"
    )
    transform = mlir.Stage("transformed", "builtin.module(transform-interpreter)", erase="" if narrow else _SCHEDULE)
    if not narrow:
        return transform, *MIDDLE, mlir.Stage("llvm", f"builtin.module({_BEFORE_VECTORS},{rest})")
    lowered = f"builtin.module({_BEFORE_VECTORS},transform-interpreter{{entry-point={MEMORY}}})"
    return (
        transform,
        *MIDDLE,
        mlir.Stage("memory", lowered, erase=_SCHEDULE),
        mlir.Stage("llvm", f"builtin.module({rest})"),
    )


def lower(kernel: Kernel, target: Target) -> str:
    """LLVM IR text of the object that holds one kernel: a private function and the tile function `kernel.symbol`."""
    return finish(translate(kernel, target), kernel, target)


def translate(kernel: Kernel, target: Target) -> str:
    """What MLIR makes of a kernel's text for a target, before `finish`."""
    text = with_maximum(kernel.text) if target.vector.nan_maximum else kernel.text
    if target.index_bits != 64:
        text = with_sequence(text, memory_sequence(target.index_bits))
    return mlir.to_llvm(text, stages(target.index_bits), inspect=_guard)


def retargeted(host: Target, target: Target) -> Target:
    """`host` for IR that was translated for `target`: with indices as wide as they are there."""
    return replace(host, code=replace(host.code, index_bits=target.index_bits))


def _guard(stage: str, text: str) -> None:
    for shape in sorted(set(re.findall(r"vector<([0-9x]+)x[a-z0-9]+>", text))):
        if prod(int(extent) for extent in shape.split("x")) > LARGEST_VECTOR:
            raise FarmError(
                Code.VECTOR_TOO_LARGE,
                f"a vector of {shape} elements after the stage {stage!r}",
                f"more than {LARGEST_VECTOR}: a tensor was not tiled or not fused",
                "This is a defect of the compiler: report it with the replay command.",
            )


_DEFINITION = re.compile(rf"^define void @{FUNCTION}\(([^)]*)\) \{{$", re.MULTILINE)
_FLAGS = re.compile(r"^!llvm\.module\.flags = !\{(.*)\}$", re.MULTILINE)
_FOREIGN = re.compile(r"^declare [^@]*(@(?!llvm\.)[^(]+)\(", re.MULTILINE)
_COPY = re.compile(r"call void @llvm\.mem\w+.*")
_ATTRIBUTES = "#900"
_METADATA = 9000
"""Numbers far above those that MLIR uses."""


def finish(text: str, kernel: Kernel, target: Target) -> str:
    """Add to the IR text: the tile function with its KCFI type, CPU attributes, module flags, a fixed source name.

    Raises `FarmError` IR_UNEXPECTED where the text is not what MLIR 22 writes.
    """
    match = _once(_DEFINITION, text)
    _check_calls(text)
    pointers = match.group(1).count("ptr ")
    if pointers != len(kernel.operands) or match.group(1).count(f"i{target.index_bits} ") != 2:
        raise FarmError(Code.IR_UNEXPECTED, "the kernel function has other arguments than its operands", match.group(0))
    private = match.group(1).replace("ptr ", "ptr noalias ")
    text = _DEFINITION.sub(f"define internal void @{FUNCTION}({private}) {_ATTRIBUTES} {{", text)
    flags = [(4, "kcfi", 1), (4, "cfi-normalize-integers", 1), (8, "PIC Level", 2), *target.code.module_flags]
    numbers = ", ".join(f"!{_METADATA + 1 + number}" for number in range(len(flags)))
    _once(_FLAGS, text)
    text = _FLAGS.sub(rf"!llvm.module.flags = !{{\1, {numbers}}}", text)
    text, found = re.subn(r'^source_filename = ".*"$', 'source_filename = "kernel"', text, flags=re.MULTILINE)
    if found != 1:
        raise FarmError(Code.IR_UNEXPECTED, "the LLVM IR names no source file")
    lines = [text.rstrip("\n"), "", *_tile_function(kernel.symbol, pointers, target.index_bits), ""]
    lines.append(f"!{_METADATA} = !{{i32 {TILE_TYPE}}}")
    lines += [ir.flag(_METADATA + 1 + number, *parts) for number, parts in enumerate(flags)]
    attributes = f'nounwind "no-builtins" {target.function_attributes}'  # so no loop becomes a call of memcpy or memset
    lines.append(f"attributes {_ATTRIBUTES} = {{ {attributes} }}")
    return "\n".join(lines) + "\n"


def _check_calls(text: str) -> None:
    """Refuse calls of other functions, and copies of memory: some back ends call memcpy for them."""
    calls = sorted({*_FOREIGN.findall(text), *(match.group(0).strip() for match in _COPY.finditer(text))})
    if calls:
        raise FarmError(
            Code.IR_UNEXPECTED,
            f"the kernel calls {', '.join(calls)}",
            "a value was copied or allocated instead of being held in vectors",
        )


def _tile_function(symbol: str, pointers: int, bits: int) -> list[str]:
    """`symbol`(ctx, begin, end): loads ctx->operands[i] and calls the kernel. No operand overlaps the output.

    Pointers are as wide as indices; the range always has 64 bits in the ABI, and a partition always fits an index.
    """
    lines = [
        f"define hidden void @{symbol}(ptr %ctx, i64 %begin, i64 %end) {_ATTRIBUTES} !kcfi_type !{_METADATA} {{",
        f"  %operands = load ptr, ptr %ctx, align {bits // 8}",
    ]
    for number in range(pointers):
        lines.append(f"  %a{number} = getelementptr inbounds ptr, ptr %operands, i{bits} {number}")
        lines.append(f"  %p{number} = load ptr, ptr %a{number}, align {bits // 8}")
    first, last = "%begin", "%end"
    if bits != 64:
        first, last = "%first", "%last"
        lines += [f"  {first} = trunc i64 %begin to i{bits}", f"  {last} = trunc i64 %end to i{bits}"]
    arguments = "".join(f"ptr %p{number}, " for number in range(pointers))
    return [*lines, f"  call void @{FUNCTION}({arguments}i{bits} {first}, i{bits} {last})", "  ret void", "}"]


def _once(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = list(pattern.finditer(text))
    if len(found) != 1:
        raise FarmError(Code.IR_UNEXPECTED, f"{len(found)} places match {pattern.pattern!r} in the LLVM IR")
    return found[0]
