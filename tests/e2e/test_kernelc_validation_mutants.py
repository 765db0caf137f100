"""Wrong kernels are found while they are built: miscompiles planted in the LLVM IR of each class of operator.

A mutant that the validation lets pass must be none: the same machine code answers as plain NumPy does, written apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernelc import fusion
from kernelc.graph import Graph
from kernelc.layout.buffer import Buffer
from kernelc.lowering import elementwise, llvm
from kernelc.lowering.groups import Lowered
from kernelc.lowering.objects import build_objects
from kernelc.lowering.operands import PortOperand, ValueOperand
from kernelc.lowering.program import Program, build_program
from kernelc.lowering.steps import Step
from kernelc.media import views
from kernelc.validation import machine, validate
from kernelfarm.errors import Code, FarmError
from tests.support import plain_numpy
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree, compile_graph, drawn_inputs
from toolchains import target
from toolchains.target import Target

V3 = "x86-64-v3"

MUTATIONS: dict[str, tuple[str, Callable[[re.Match[str]], str]]] = {
    "a sum is a difference": (r"= fadd ", lambda _: "= fsub "),
    "a product is a sum": (r"= fmul ", lambda _: "= fadd "),
    "an address is one further": (r"(= add i64 %\d+, )0$", lambda found: f"{found[1]}1"),
    "a stride is one longer": (r"(= mul i64 %\d+, )(\d+)$", lambda found: f"{found[1]}{int(found[2]) + 1}"),
    "a loop runs once more": (r"= icmp slt (i64 %\d+, %\d+)$", lambda found: f"= icmp sle {found[1]}"),
    "a loop runs once less": (
        r"(= icmp slt i64 %\d+, )([1-9]\d*)$", lambda found: f"{found[1]}{int(found[2]) - 1}"
    ),
    "a bound is chosen the other way": (r"= fcmp olt ", lambda _: "= fcmp ogt "),
    "a number is another": (r"splat \(float 1\.000000e\+00\)", lambda _: "splat (float 1.250000e+00)"),
}  # fmt: skip


def convolution(make: Maker) -> str:
    x = make.input(1, 5, 6, 13)
    return make.node("relu", make.conv(x, 12, 3, pads=(1, 1, 1, 1)))


def residual(make: Maker) -> str:
    x = make.input(1, 9, 4, 7)
    return make.node("add", make.node("hard_swish", make.conv(x, 9, 1)), x)


def depthwise(make: Maker) -> str:
    return make.node("clip", make.conv(make.input(1, 11, 7, 9), 11, 3, group=11, strides=(2, 2)), min=0.0, max=6.0)


def transposed(make: Maker) -> str:
    return make.conv_transpose(make.input(1, 6, 4, 5), 7, 2)


def pooled(make: Maker) -> str:
    return make.node("global_average_pool", make.input(1, 10, 5, 6))


def maximum(make: Maker) -> str:
    kept = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1), "ceil_mode": 0}
    return make.node("max_pool", make.input(1, 10, 7, 9), **kept)  # type: ignore[arg-type]


def scores(make: Maker) -> str:
    x = make.node("reshape", make.input(1, 21, 1, 1), shape=(1, 21))
    return make.node("softmax", make.node("matmul", x, make.weight(21, 13, scale=0.2), make.weight(13)), axis=1)


def normalised(make: Maker) -> str:
    return make.node("layer_norm", make.input(1, 7, 20), epsilon=1e-5)


def gated(make: Maker) -> str:
    x = make.input(1, 8, 3, 5)
    return make.node("mul", x, make.node("sigmoid", x))


def sloped(make: Maker) -> str:
    x = make.conv(make.input(1, 5, 3, 9), 12, 1)
    return make.node("tanh", make.node("prelu", make.node("leaky_relu", x, alpha=0.25), make.weight(1, 12, 1, 1)))


def spread(make: Maker) -> str:
    view = views.transposed(views.whole((1, 8, 3, 21)), (1, 2, 2, 2, 3, 21), (0, 1, 4, 2, 5, 3))
    assert view is not None
    moved = {"sizes": view.sizes, "strides": view.strides, "offset": 0, "shape": (1, 2, 6, 42)}
    return make.node("rearrange", make.input(1, 8, 3, 21), **moved)


GRAPHS = (convolution, residual, depthwise, transposed, pooled, maximum, scores, normalised, gated, sloped, spread)


def graph_of(case: Callable[[Maker], str]) -> Graph:
    make = Maker()
    return make.finish(case(make))


def check(program: Program, chosen: Target, folder: Path) -> None:
    """Compile and validate as a build does."""
    folder.mkdir()
    host = machine.host_of(chosen)
    assert host is not None
    built = build_objects(program.kernels, chosen, folder, jobs=2, host=host)
    runnable = {symbol: made.runnable for symbol, made in built.items() if made.runnable is not None}
    validate(program, runnable, host, folder / "validation", lambda *_: None)


@pytest.mark.parametrize("name", target.names())
@pytest.mark.parametrize("case", GRAPHS, ids=lambda case: case.__name__)
def test_right_kernels_of_every_target_pass(case: Callable[[Maker], str], name: str, tmp_path: Path) -> None:
    graph, chosen = graph_of(case), target.load(name)
    groups = fusion.group(graph).groups

    check(build_program(graph, groups, chosen), chosen, tmp_path / "work")


def recast(chosen: Target) -> Program:
    """Its input is read in blocks and apart, what follows is in blocks, then apart: by casts, one from the caller's."""
    make = Maker()
    x = make.input(1, 16, 5, 9)
    y = make.node("softmax", x, axis=1)
    graph = make.finish(make.conv(x, 3, 1), make.conv(y, 4, 3, pads=(1, 1, 1, 1)))
    groups = fusion.group(graph).groups
    demands = {"t0": (8,), y: (8,), **{port.tensor: (1,) for port in graph.outputs}}
    return build_program(graph, groups, chosen, demands=demands)


@pytest.mark.parametrize("name", target.names())
def test_right_kernels_with_channels_apart_and_casts_to_them_pass(name: str, tmp_path: Path) -> None:
    program = recast(target.load(name))

    check(program, target.load(name), tmp_path / "work")

    assert [type(op.operands[0]) for op in casts_of(program)] == [PortOperand, ValueOperand]
    assert [program.layout.buffers[port.tensor].lanes for port in program.graph.outputs] == [1, 1]


def casts_of(program: Program) -> list[Lowered]:
    """Those that layouts take, without the boundaries."""
    inner = {group.name for group in program.groups}
    return [op for op in program.ops if op.kind == "layout_cast" and op.name in inner]


def test_a_cast_may_not_be_off_by_what_sums_may(tmp_path: Path) -> None:
    program = recast(target.load(V3))
    cast = casts_of(program)[0]  # from the caller's memory, apart in both
    memory = Buffer(16, 5, 9, 1)
    nearly = elementwise.lower(elementwise.Elementwise(memory, memory, (Step("mul", (1.00001,)),), 8))
    ops = tuple(replace(op, kernel=nearly) if op is cast else op for op in program.ops)

    with pytest.raises(FarmError) as error:
        check(replace(program, ops=ops), target.load(V3), tmp_path / "work")

    assert (error.value.code, error.value.detail["group"]) == (Code.KERNEL_WRONG, cast.name)


@pytest.mark.parametrize("case", GRAPHS, ids=lambda case: case.__name__)
def test_a_wrong_kernel_does_not_leave_the_compiler(
    case: Callable[[Maker], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, chosen = graph_of(case), target.load(V3)
    groups = tuple(fusion.group(graph).groups)
    program = build_program(graph, groups, chosen)
    raw = {symbol: llvm.translate(kernel, chosen) for symbol, kernel in program.kernels.items()}
    refused = []

    for mutation in MUTATIONS:
        texts = {symbol: planted(text, mutation) for symbol, text in raw.items()}
        if texts == raw:
            continue
        monkeypatch.setattr(llvm, "translate", lambda kernel, _target, texts=texts: texts[kernel.symbol])
        try:
            check(program, chosen, tmp_path / mutation)
        except FarmError as error:
            assert error.code is Code.KERNEL_WRONG
            refused.append(mutation)
        else:
            assert_is_right(graph, tmp_path / f"{mutation} apart")

    # a move has addresses and loops alone
    assert len(refused) >= (3 if case is spread else 4), refused


def planted(text: str, mutation: str) -> str:
    """The text with a mutation at the middle one of the places where it fits."""
    pattern, change = MUTATIONS[mutation]
    found = list(re.finditer(pattern, text, re.MULTILINE))
    if not found:
        return text
    match = found[len(found) // 2]
    return text[: match.start()] + change(match) + text[match.end() :]


def assert_is_right(graph: Graph, folder: Path) -> None:
    """What is compiled now answers as plain NumPy does."""
    inputs, compiled = drawn_inputs(graph), compile_graph(graph, V3, folder)
    for found, wanted in zip(compiled.run(inputs), plain_numpy.evaluate(graph, list(inputs)), strict=True):
        agree(found, wanted)
