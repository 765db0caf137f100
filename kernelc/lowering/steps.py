"""Element-wise arithmetic: the steps of a group's epilogue, written into the body of one generic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelc.layout.buffer import Buffer
from kernelc.lowering.exponential import HIGHEST, exponential, hyperbolic_tangent
from kernelc.lowering.root import root
from kernelc.lowering.text import Value, Writer
from kernelc.lowering.tile import Tile, read

CONTRACT = "fastmath<contract>"
"""Lets a product and a sum become one fused multiply-add; nothing else may be reordered."""


@dataclass(frozen=True, slots=True)
class Step:
    """One element-wise operation on the running value.

    `numbers`: clip's bounds, leaky_relu's alpha, hard_sigmoid's alpha and beta, or a scalar operand. `operand`: the
    other tensor, of the output's size or one value per channel. `swapped`: the running value is the right operand.
    `kept`: the other operand is the running value as it was before that step, by number; 0 is what the first step got.
    """

    op: str
    numbers: tuple[float, ...] = ()
    operand: Buffer | None = None
    swapped: bool = False
    kept: int | None = None


_ARITHMETIC = {"add": "addf", "sub": "subf", "mul": "mulf", "div": "divf"}
BINARY = (*_ARITHMETIC, "prelu")
UNARY = ("relu", "leaky_relu", "clip", "hard_sigmoid", "hard_swish", "sigmoid", "tanh", "silu", "sqrt")


class Body:
    """Lines of a generic's body with their own names."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.lines: list[str] = []

    def define(self, text: str) -> str:
        """Append an operation, give its result's name."""
        name = f"%e{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def op(self, name: str, left: str, right: str, flags: str = CONTRACT) -> str:
        """A binary f32 operation of the arith dialect."""
        return self.define(f"arith.{name} {left}, {right} {flags} : f32")

    def at_least(self, value: str, bound: float) -> str:
        """max(value, bound); NaN stays NaN. One instruction on x86 in this form; `with_maximum` writes the other."""
        return self._bounded("olt", value, bound)

    def at_most(self, value: str, bound: float) -> str:
        """min(value, bound); NaN stays NaN."""
        return self._bounded("ogt", value, bound)

    def _bounded(self, predicate: str, value: str, bound: float) -> str:
        limit = self.writer.scalar(bound)
        outside = self.define(f"arith.cmpf {predicate}, {value}, {limit} : f32")
        return self.define(f"arith.select {outside}, {limit}, {value} : f32")


_BOUNDED = re.compile(
    r"^(%\w+) = arith\.cmpf (olt|ogt), (%\w+), (%\w+) : f32\n(%\w+) = arith\.select \1, \4, \3 : f32$", re.MULTILINE
)


def with_maximum(text: str) -> str:
    """A kernel's text in which `Body.at_least` and `Body.at_most` are arith.maximumf and arith.minimumf."""
    names = {"olt": "maximumf", "ogt": "minimumf"}
    return _BOUNDED.sub(lambda found: f"{found[5]} = arith.{names[found[2]]} {found[3]}, {found[4]} : f32", text)


def apply(body: Body, step: Step, value: str, operand: str | None) -> str:
    """The name of the step's result on the running value `value` and the element of its other operand, if any."""
    if step.op in BINARY:
        other = operand if operand is not None else body.writer.scalar(step.numbers[0])
        left, right = (other, value) if step.swapped else (value, other)
        return _sloped(body, left, right) if step.op == "prelu" else body.op(_ARITHMETIC[step.op], left, right)
    return _apply_unary(body, step, value)


def _sloped(body: Body, value: str, slope: str) -> str:
    """value, or slope * value where that is below 0; NaN and -0 stay."""
    below = body.define(f"arith.cmpf olt, {value}, {body.writer.scalar(0.0)} : f32")
    scaled = body.op("mulf", slope, value, "")
    return body.define(f"arith.select {below}, {scaled}, {value} : f32")


def _apply_unary(body: Body, step: Step, value: str) -> str:
    constant = body.writer.scalar
    match step.op:
        case "relu":
            return body.at_least(value, 0.0)
        case "leaky_relu":
            return _sloped(body, value, constant(step.numbers[0]))
        case "clip":
            low, high = step.numbers
            return body.at_most(body.at_least(value, low), high)
        case "hard_sigmoid":
            alpha, beta = step.numbers
            line = body.op("addf", body.op("mulf", value, constant(alpha)), constant(beta))
            return body.at_most(body.at_least(line, 0.0), 1.0)
        case "hard_swish":
            gate = body.at_most(body.at_least(body.op("addf", value, constant(3.0)), 0.0), 6.0)
            # the gate first: a value times 6 overflows where the result does not
            return body.op("mulf", value, body.op("mulf", gate, constant(1.0 / 6.0)))
        case "sigmoid":
            below = _one_and_power(body, value)
            return body.op("divf", constant(1.0), below, "")
        case "tanh":
            return hyperbolic_tangent(body, value)
        case "silu":
            # the power ends at exp(88), so that below -88 the result would grow with the value
            return body.op("divf", body.at_least(value, -HIGHEST), _one_and_power(body, value), "")
        case "sqrt":
            return root(body, value)
    raise AssertionError(f"no step {step.op}")


def _one_and_power(body: Body, value: str) -> str:
    """1 + exp(-value)."""
    power = exponential(body, body.op("subf", body.writer.scalar(0.0), value, ""))
    return body.op("addf", power, body.writer.scalar(1.0))


def step_operands(steps: Sequence[Step]) -> list[Value]:
    """Function arguments for the tensors of the steps that have one, in order."""
    buffers = [step.operand for step in steps if step.operand is not None]
    return [Value(f"%r{number}", buffer.shape) for number, buffer in enumerate(buffers)]


def finish(writer: Writer, tile: Tile, value: Value, steps: Sequence[Step], operands: Sequence[Value]) -> Value:
    """The tile `value` after all `steps`, in place; `operands` are the tensors of the steps that have one, in order."""
    return _emit(writer, tile, [], "%acc", steps, operands, value) if steps else value


def produce(
    writer: Writer,
    tile: Tile,
    source: tuple[Value, str],
    steps: Sequence[Step],
    operands: Sequence[Value],
    target: Value,
) -> Value:
    """`target`, a window of the output, filled with `steps` of `source` (a value and its access). At least one step."""
    return _emit(writer, tile, [source], "%a0", steps, operands, target)


def _emit(
    writer: Writer,
    tile: Tile,
    inputs: list[tuple[Value, str]],
    name: str,
    steps: Sequence[Step],
    operands: Sequence[Value],
    target: Value,
) -> Value:
    body = Body(writer)
    waiting = iter(operands)
    running = [name]
    for step in steps:
        element = None if step.kept is None else running[step.kept]
        if step.operand is not None:
            inputs.append(read(writer, next(waiting), step.operand, tile))
            element = f"%a{len(inputs) - 1}"
        running.append(apply(body, step, running[-1], element))
    return writer.generic(tile.dims, inputs, target, tile.dims, body.lines, running[-1])
