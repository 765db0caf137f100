"""The farm's own rules, and those of a user's files.

`rules/*.yaml` are the sources. The compiler reads `rules.json`, the same rules in canonical form, so that no parser of
YAML is needed where models are compiled, and comments decide no key: `python -m kernelc.fusion.rules` writes it, a
test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kernelc.fusion import schema
from kernelc.fusion.document import Document
from kernelc.fusion.rule import Rule
from kernelfarm import canonical, files
from kernelfarm.errors import Code, FarmError

SOURCES = Path(__file__).with_name("rules")
COMPILED = Path(__file__).with_name("rules.json")


@cache
def builtin() -> tuple[Rule, ...]:
    """The farm's own rules."""
    return from_json(COMPILED.read_bytes(), COMPILED.name)


def load(extra: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """The farm's own rules and after them those of rule files.

    Raises `FarmError` RULE_FILE_INVALID, RULE_INVALID or RULE_CONSTRAINT with file, line and column in its detail, or
    an ENVIRONMENT code of the file system.
    """
    rules = list(builtin())
    taken = {rule.name for rule in rules}
    for path in extra:
        source = read(path)
        for (place, _), rule in zip(schema.entries(source), schema.rules_of(source), strict=True):
            if rule.name in taken:
                why = f"another rule is called {rule.name!r}"
                raise source.error(Code.RULE_INVALID, (*place, "name"), "not a fusion rule", why)
            taken.add(rule.name)
            rules.append(rule)
    return tuple(rules)


def read(path: Path) -> Document:
    """A rule file; raises as `load`."""
    from kernelc.fusion import yaml_file  # here: the image that models are compiled in has no parser of YAML

    with files.coded("a rule file could not be read", path):
        data = path.read_bytes()
    try:
        return yaml_file.read(data.decode("utf-8"), path.name)
    except UnicodeDecodeError as reason:
        raise FarmError(Code.RULE_FILE_INVALID, f"{path.name} is not UTF-8", str(reason)) from None


def to_json(rules: Sequence[Rule]) -> bytes:
    """Rules in canonical form, which `from_json` reads."""
    return canonical.dumps(schema.data_of(rules))


def from_json(data: bytes, name: str) -> tuple[Rule, ...]:
    """The rules that `to_json` wrote; raises `FarmError` as `load`, JSON_INVALID or JSON_NOT_CANONICAL."""
    return schema.rules_of(Document(name, canonical.loads(data, strict=True, name=name)))


def compiled() -> bytes:
    """What `rules.json` must hold: the rules of all sources, files in order of their names."""
    return to_json([rule for path in sorted(SOURCES.glob("*.yaml")) for rule in schema.rules_of(read(path))])
