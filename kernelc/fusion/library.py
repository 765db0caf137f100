"""The farm's own rules, and those of a user's files.

`rules/*.yaml` are the sources. The compiler reads `rules.json`, the same rules in canonical form, so that no parser of
YAML is needed where models are compiled, and comments decide no key: `python -m kernelc.fusion.rules` writes it, a
test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from kernelc.fusion import schema
from kernelc.fusion.document import Document, error_at
from kernelc.fusion.rule import Rule
from kernelfarm import canonical, files
from kernelfarm.errors import Code

SOURCES = Path(__file__).with_name("rules")
COMPILED = Path(__file__).with_name("rules.json")


@cache
def builtin() -> tuple[Rule, ...]:
    """The farm's own rules."""
    return from_json(COMPILED.read_bytes(), COMPILED.name)


def load(paths: Sequence[Path]) -> tuple[Rule, ...]:
    """The rules of a user's files, which go after the farm's own, in the order of the files.

    Raises `FarmError` RULE_FILE_INVALID, RULE_INVALID or RULE_CONSTRAINT with file, line and column in its detail, or
    an ENVIRONMENT code of the file system.
    """
    return _new([read(path) for path in paths], _place_of_own)


def joined(data: bytes, name: str) -> tuple[Rule, ...]:
    """The farm's own rules and after them those that `to_json` wrote of a user's; raises as `from_json` and `load`."""
    return (*builtin(), *_new([_canonical(data, name)], lambda _: COMPILED.name))


def read(path: Path) -> Document:
    """A rule file; raises as `load`."""
    from kernelc.fusion import yaml_file  # here: the image that models are compiled in has no parser of YAML

    with files.coded("a rule file could not be read", path):
        if not path.is_file() and path.exists():  # a pipe or a device may have no end
            what, why = "a rule file is no plain file", "it is a folder or a special file"
            raise error_at(Code.RULE_FILE_INVALID, str(path), None, what, why)
        with path.open("rb") as stream:
            data = stream.read(yaml_file.MAX_BYTES + 1)
    return yaml_file.read(data, str(path))


def to_json(rules: Sequence[Rule]) -> bytes:
    """Rules in canonical form, which `from_json` reads."""
    return canonical.dumps(schema.data_of(rules))


def from_json(data: bytes, name: str) -> tuple[Rule, ...]:
    """The rules that `to_json` wrote; raises `FarmError` as `load`, JSON_INVALID or JSON_NOT_CANONICAL."""
    return schema.rules_of(_canonical(data, name))


def compiled() -> bytes:
    """What `rules.json` must hold: the rules of all sources, files in order of their names."""
    return to_json([rule for document in _sources() for rule in schema.rules_of(document)])


def _canonical(data: bytes, name: str) -> Document:
    return Document(name, canonical.loads(data, strict=True, name=name))


def _sources() -> Iterator[Document]:
    return (read(path) for path in sorted(SOURCES.glob("*.yaml")))


def _new(documents: Sequence[Document], place_of_own: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules of documents, none of which may have the name of another one or of one of the farm's."""
    own = {rule.name for rule in builtin()}
    rules: dict[str, Rule] = {}
    places: dict[str, str] = {}
    for document in documents:
        for (path, _), rule in zip(schema.entries(document), schema.rules_of(document), strict=True):
            why = ""
            if rule.name in own or rule.name in rules:
                first = places.get(rule.name) or f"the farm's own at {place_of_own(rule.name)}"
                why = f"another rule is called {rule.name!r}: {first}"
            elif len(rules) == schema.MAX_RULES:
                why = f"all files together have more than {schema.MAX_RULES} rules"
            if why:
                raise document.error(Code.RULE_INVALID, (*path, "name"), "not a fusion rule", why)
            rules[rule.name] = rule
            places[rule.name] = document.where((*path, "name"))
    return tuple(rules.values())


def _place_of_own(name: str) -> str:
    """Where in the farm's own files the rule of this name lies."""
    for document in _sources():
        for path, data in schema.entries(document):
            if data["name"] == name:
                return document.where((*path, "name"))
    return COMPILED.name
