"""Rules as PDL text: a form that MLIR's tools read, and that a test runs to check our own matcher against.

The compiler does not match by it (docs/adr/0026): PDL has no repetition and no "either operand", so that a rule becomes
a pattern for every length of its repeated step and every place of the value that runs through the chain.

Native constraints: `one_of`(operation, names), `holds`(constraint, step names, operations...) and, last,
`legal`(pattern, operations...), which stands for G1 to G7; `fuse`(root, rule, operations...) is the rewrite. MLIR asks
first what most patterns ask: `legal` names its pattern, which no other does, so that it is asked when all others hold.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kernelc.fusion.rule import Rule, Step
from kernelc.media.ops import OPS


@dataclass(frozen=True, slots=True)
class _Place:
    """An operation of a pattern: `arity` operands, of which number `position` is the result of the one before.

    `kept` is the number of the operation whose result the other operand is, None for any value.
    """

    step: Step
    arity: int
    position: int
    kept: int | None = None

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(op for op in self.step.ops if op in OPS and _takes(op, self.arity))


def to_text(rules: Sequence[Rule], *, repeats: int = 1) -> str:
    """A module of the patterns of all rules that do not rest; of a step that repeats up to `repeats` in a row."""
    patterns = [
        _pattern(f"{rule.name}_{number}", rule, steps, places)
        for rule in rules
        if not rule.lacks
        for number, (steps, places) in enumerate(_chains(rule, repeats))
    ]
    return "module {\n" + "".join(patterns) + "}\n"


def _chains(rule: Rule, repeats: int) -> Iterator[tuple[list[Step], list[_Place]]]:
    """Each row of steps without repetition, with each choice of operands."""
    counts = [range(step.least, min(step.most, max(1, repeats)) + 1) for step in rule.steps]
    for ways in itertools.product(*counts):
        steps = [step for step, count in zip(rule.steps, ways, strict=True) for _ in range(count)]
        kept = [None if step.reads is None else _index_of(steps, step.reads) for step in steps]
        if any(index is not None and number - index < 2 for number, index in enumerate(kept)):
            continue  # nothing is between the two: it would be the value that runs through the chain
        for places in itertools.product(*(_places(step) for step in steps[1:])):
            yield steps, [replace(place, kept=index) for place, index in zip(places, kept[1:], strict=True)]


def _index_of(steps: Sequence[Step], name: str) -> int:
    return next(index for index, step in enumerate(steps) if step.name == name)


def _places(step: Step) -> list[_Place]:
    arities = sorted({arity for arity in (1, 2, 3) for op in step.ops if op in OPS and _takes(op, arity)})
    return [_Place(step, arity, position) for arity in arities for position in range(arity)]


def _takes(op: str, arity: int) -> bool:
    least, most = OPS[op].arity
    return least <= arity and (most is None or arity <= most)


def _pattern(name: str, rule: Rule, steps: Sequence[Step], places: Sequence[_Place]) -> str:
    lines = ["%in = pdl.operands", "%t0 = pdl.type"]
    lines += _operation(0, tuple(op for op in steps[0].ops if op in OPS), "%in : !pdl.range<value>")
    for index, place in enumerate(places, 1):
        lines += [f"%v{index} = pdl.result 0 of %o{index - 1}", f"%t{index} = pdl.type"]
        operands = []
        for number in range(place.arity):
            other = f"%x{index}_{number}"
            operands.append(f"%v{index}" if number == place.position else other)
            source = "pdl.operand" if place.kept is None else f"pdl.result 0 of %o{place.kept}"
            lines += [f"{other} = {source}"] if number != place.position else []
        kinds = ", ".join(["!pdl.value"] * place.arity)
        lines += _operation(index, place.ops, f"{', '.join(operands)} : {kinds}")
    values = ", ".join(f"%o{index}" for index in range(len(steps)))
    kinds = ", ".join(["!pdl.operation"] * len(steps))
    lines += [f"%rule = pdl.attribute = {json.dumps(rule.name)}", f"%steps = pdl.attribute = {_strings(steps)}"]
    for number, one in enumerate(rule.constraints):
        lines.append(f"%c{number} = pdl.attribute = {json.dumps(one.text)}")
        arguments = f"%c{number}, %steps, {values} : !pdl.attribute, !pdl.attribute, {kinds}"
        lines.append(f'pdl.apply_native_constraint "holds"({arguments})')
    lines.append(f"%own = pdl.attribute = {json.dumps(name)}")
    lines.append(f'pdl.apply_native_constraint "legal"(%own, {values} : !pdl.attribute, {kinds})')
    lines.append(f'pdl.rewrite %o{len(steps) - 1} with "fuse"(%rule, {values} : !pdl.attribute, {kinds})')
    body = "".join(f"    {line}\n" for line in lines)
    return f"  pdl.pattern @{name} : benefit({rule.benefit}) {{\n{body}  }}\n"


def _operation(index: int, ops: Sequence[str], operands: str) -> list[str]:
    named = f' "media.{ops[0]}"' if len(ops) == 1 else ""
    lines = [f"%o{index} = pdl.operation{named}({operands}) -> (%t{index} : !pdl.type)"]
    if not named:
        names = ", ".join(f'"media.{op}"' for op in ops)
        lines.append(f"%n{index} = pdl.attribute = [{names}]")
        lines.append(f'pdl.apply_native_constraint "one_of"(%o{index}, %n{index} : !pdl.operation, !pdl.attribute)')
    return lines


def _strings(steps: Sequence[Step]) -> str:
    return json.dumps([step.name for step in steps])
