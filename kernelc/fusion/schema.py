"""Rules from a document, checked all through: every fault names the place in the file. And back to plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kernelc.fusion import constraint, names
from kernelc.fusion.constraint import Constraint, Faulty, Kind
from kernelc.fusion.document import Document, Path
from kernelc.fusion.facts import kind_of
from kernelc.fusion.rule import MAX_CHAIN, Rule, Step
from kernelc.media.ops import OPS
from kernelfarm.errors import Code

MAX_RULES, MAX_STEPS, MAX_CONSTRAINTS, MAX_BENEFIT = 500, 8, 16, 65535
_RULE = ("name", "pattern", "constraints", "schedule_hint", "benefit", "covers", "tests")
_STEP = ("op", "name", "optional", "repeat", "reads")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_HINT = re.compile(r"[ -~]{0,200}")


def rules_of(document: Document) -> tuple[Rule, ...]:
    """The rules of a document: one under `fusion_rule`, or a list under `fusion_rules`.

    Raises `FarmError` RULE_INVALID or RULE_CONSTRAINT with file, line and column.
    """
    return tuple(_Reader(document, path).rule(data) for path, data in entries(document))


def entries(document: Document) -> list[tuple[Path, Any]]:
    """Each rule's path and data; raises as `rules_of`."""
    data = document.data
    if not isinstance(data, dict) or set(data) not in ({"fusion_rule"}, {"fusion_rules"}):
        raise document.error(
            Code.RULE_INVALID, (), "not a rule file", "it must hold fusion_rule (one) or fusion_rules (a list)"
        )
    if "fusion_rule" in data:
        return [(("fusion_rule",), data["fusion_rule"])]
    many = data["fusion_rules"]
    if not isinstance(many, list) or len(many) > MAX_RULES:
        why = f"fusion_rules must be a list of at most {MAX_RULES} rules"
        raise document.error(Code.RULE_INVALID, ("fusion_rules",), "not a rule file", why)
    return [(("fusion_rules", index), rule) for index, rule in enumerate(many)]


def data_of(rules: Sequence[Rule]) -> dict[str, Any]:
    """The rules as a document's data, every default written out, names of the dialect only; without their tests."""
    return {
        "fusion_rules": [
            {
                "name": rule.name,
                "pattern": [_step_data(step) for step in rule.steps],
                "constraints": [one.text for one in rule.constraints],
                "benefit": rule.benefit,
                "schedule_hint": rule.hint,
                "covers": list(rule.covers),
            }
            for rule in rules
        ]
    }


def _step_data(step: Step) -> dict[str, Any]:
    return {
        "op": list(step.ops),
        "name": step.name,
        "optional": step.least == 0,
        "repeat": step.most,
        "reads": step.reads,
    }


class _Reader:
    """Reads one rule; `path` is where it lies."""

    def __init__(self, document: Document, path: Path) -> None:
        self._document, self._path = document, path

    def rule(self, data: Any) -> Rule:
        self._mapping(data, (), _RULE, ("name", "pattern"))
        name = self._text(data["name"], ("name",), _NAME, "a name of letters, digits and _")
        pattern = data["pattern"]
        if not isinstance(pattern, list) or not 2 <= len(pattern) <= MAX_STEPS:
            self._fail(("pattern",), f"a pattern is a list of 2 to {MAX_STEPS} steps")
        steps = self._steps(pattern)
        benefit = data.get("benefit", 1)
        if type(benefit) is not int or not 0 <= benefit <= MAX_BENEFIT:
            self._fail(("benefit",), f"a benefit is a number from 0 to {MAX_BENEFIT}")
        return Rule(
            name,
            steps,
            self._constraints(data.get("constraints", []), steps),
            benefit,
            self._text(data.get("schedule_hint", ""), ("schedule_hint",), _HINT, "a line of printable ASCII"),
            self._covers(data.get("covers", [])),
        )

    def _steps(self, pattern: Sequence[Any]) -> tuple[Step, ...]:
        steps: list[Step] = []
        for index, data in enumerate(pattern):
            step = self._step(data, ("pattern", index), steps)
            if not steps and (step.least, step.most) != (1, 1):
                self._fail(("pattern", index), "the first step is neither optional nor repeated")
            steps.append(step)
        if sum(step.most > 1 for step in steps) > 1:
            self._fail(("pattern",), "one step at most can repeat")
        if sum(step.most for step in steps) > MAX_CHAIN:
            self._fail(("pattern",), f"it matches more than {MAX_CHAIN} operations")
        if sum(step.least for step in steps) < 2:
            self._fail(("pattern",), "two steps at least must not be optional")
        return tuple(steps)

    def _step(self, data: Any, path: Path, before: Sequence[Step]) -> Step:
        self._mapping(data, path, _STEP, ("op",))
        taken = [step.name for step in before]
        listed = data["op"] if isinstance(data["op"], list) else [data["op"]]
        if not listed:
            self._fail((*path, "op"), "no operation is named")
        ops: list[str] = []
        for index, name in enumerate(listed):
            found = names.operations(name) if isinstance(name, str) else ()
            if not found or not set(found).isdisjoint(ops):
                place = (*path, "op", index) if isinstance(data["op"], list) else (*path, "op")
                self._fail(place, f"{name!r} is named twice" if found else f"there is no operation {name!r}")
            ops += found
        own = data.get("name") is not None
        given = data["name"] if own else names.default_name(tuple(ops))
        if not own:
            given = next(name for name in (given, *(f"{given}{n}" for n in range(2, 99))) if name not in taken)
        name = self._text(given, (*path, "name"), _NAME, "a name of letters, digits and _")
        if name in taken:
            self._fail((*path, "name"), f"two steps are called {name!r}")
        optional, repeat = data.get("optional", False), data.get("repeat", 1)
        if not isinstance(optional, bool):
            self._fail((*path, "optional"), "optional is true or false")
        if type(repeat) is not int or not 1 <= repeat < MAX_CHAIN:
            self._fail((*path, "repeat"), f"a step repeats from 1 to {MAX_CHAIN - 1} times")
        step = Step(name, tuple(ops), 0 if optional else 1, repeat, data.get("reads"))
        if step.reads is not None:
            self._require_readable(step, (*path, "reads"), before)
        return step

    def _require_readable(self, step: Step, path: Path, before: Sequence[Step]) -> None:
        single = [one.name for one in before[:-1] if (one.least, one.most) == (1, 1)]
        if step.reads not in single:
            self._fail(path, f"reads names a step before the last one, of one operation: {', '.join(single) or 'none'}")
        if step.most > 1 or not all(op not in OPS or OPS[op].arity[0] == 2 for op in step.ops):
            self._fail(path, "only one operation of two operands reads another step")

    def _constraints(self, data: Any, steps: Sequence[Step]) -> tuple[Constraint, ...]:
        if not isinstance(data, list) or len(data) > MAX_CONSTRAINTS:
            self._fail(("constraints",), f"constraints are a list of at most {MAX_CONSTRAINTS}")
        ops: Mapping[str, tuple[str, ...]] = {step.name: step.ops for step in steps}

        def kind(name: str, fact: str) -> Kind:
            if name not in ops:
                raise Faulty(f"no step is called {name!r}; there are {', '.join(ops)}")
            return kind_of(ops[name], fact)

        found = []
        for index, text in enumerate(data):
            path = (*self._path, "constraints", index)
            if not isinstance(text, str):
                self._fail(("constraints", index), "a constraint is a text")
            try:
                found.append(constraint.parse(text, kind))
            except Faulty as fault:
                raise self._document.error(
                    Code.RULE_CONSTRAINT, path, f"not a constraint: {text:.60}", str(fault), offset=fault.offset
                ) from None
        return tuple(found)

    def _covers(self, data: Any) -> tuple[str, ...]:
        if not isinstance(data, list) or not all(isinstance(one, str) and _NAME.fullmatch(one) for one in data):
            self._fail(("covers",), "covers is a list of ids of patterns, such as A02")
        return tuple(data)

    def _mapping(self, data: Any, path: Path, known: Sequence[str], needed: Sequence[str]) -> None:
        if not isinstance(data, dict):
            self._fail(path, f"it must have the keys {', '.join(needed)}")
        for key in data:
            if key not in known:
                self._fail((*path, key), f"there is no key {key!r}; there are {', '.join(known)}")
        for key in needed:
            if key not in data:
                self._fail(path, f"the key {key!r} is missing")

    def _text(self, data: Any, path: Path, form: re.Pattern[str], what: str) -> str:
        if not isinstance(data, str) or form.fullmatch(data) is None:
            self._fail(path, f"{data!r:.60} is not {what}")
        return data

    def _fail(self, path: Path, why: str) -> NoReturn:
        raise self._document.error(Code.RULE_INVALID, (*self._path, *path), "not a fusion rule", why)
