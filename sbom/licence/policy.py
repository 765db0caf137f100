"""The licence policy: what each licence is worth in each role. Pure; the farm's own is `policy.toml` beside it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from kernelfarm import canonical, files
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from sbom.licence import expression
from sbom.licence.nouns import Decision, Role

OWN = Path(__file__).with_name("policy.toml")
UNLISTED = "unlisted"
"""The rule of a licence that no line of the policy matches."""
_SCHEMA = "licence-policy/1"
_WILD = "*?["
_JOINED = re.compile(r"\s(?:AND|OR)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a policy says of an expression: the decision, the line that decides, the licence that it is about."""

    decision: Decision
    rule: str
    licence: str


@dataclass(frozen=True, slots=True)
class Policy:
    """For each role the patterns of licences with their decision. `name` is for people, `digest` of the meaning."""

    name: str
    tables: Mapping[Role, Mapping[str, Decision]]
    digest: Digest

    def of(self, text: str, role: Role) -> Ruling:
        """The ruling on an SPDX expression: the worst part of an AND, the best of an OR.

        Raises `FarmError` LICENCE_INVALID for what is no expression.
        """
        return expression.fold(text, lambda licence: self._of_licence(licence, role), _worst, _best)

    def _of_licence(self, licence: str, role: Role) -> Ruling:
        table = self.tables[role]
        fitting = [one for one in table if one == licence or fnmatchcase(licence.lower(), one.lower())]
        if not fitting:
            return Ruling(Decision.REVIEW, UNLISTED, licence)
        pattern = max(fitting, key=lambda item: (item == licence, len(item), item))
        decision = table[pattern]
        return Ruling(decision, f'{role.value}.{decision.value} "{pattern}"', licence)


def _worst(parts: list[Ruling]) -> Ruling:
    return max(parts, key=lambda item: item.decision.severity)


def _best(parts: list[Ruling]) -> Ruling:
    return min(parts, key=lambda item: item.decision.severity)


@cache
def own() -> Policy:
    """The farm's own policy."""
    return load(OWN)


def load(path: Path) -> Policy:
    """The policy in a file. Raises `FarmError` LICENCE_POLICY_INVALID, or a coded error of the disk."""
    with files.coded("a licence policy could not be read", path):
        data = path.read_bytes()
    try:
        return parse(tomllib.loads(data.decode()), path.name)
    except ValueError as reason:
        _invalid(path.name, str(reason))


def parse(document: Mapping[str, Any], name: str) -> Policy:
    """The policy that a TOML document spells; raises LICENCE_POLICY_INVALID naming what is wrong."""
    if document.get("schema") != _SCHEMA:
        _invalid(name, f'it does not begin with schema = "{_SCHEMA}"')
    if wrong := sorted(set(document) ^ {"schema", *Role}):
        _invalid(name, f"the table {wrong[0]} is {'unknown' if wrong[0] in document else 'missing'}")
    tables = {role: _table(document[role.value], role, name) for role in Role}
    meaning = {role.value: {key: value.value for key, value in table.items()} for role, table in tables.items()}
    return Policy(name, tables, canonical.digest_of({"schema": _SCHEMA, **meaning}))


def _table(entries: Any, role: Role, name: str) -> dict[str, Decision]:
    if not isinstance(entries, dict) or set(entries) - {item.value for item in Decision}:
        _invalid(name, f"{role.value} is no table of allow, review and deny")
    found: dict[str, Decision] = {}
    for decision in Decision:
        for text in _texts(entries.get(decision.value, []), f"{role.value}.{decision.value}", name):
            pattern = _pattern(text, f"{role.value} names {text!r}", name)
            if pattern.lower() in map(str.lower, found):
                _invalid(name, f"{role.value} names {text!r} twice")
            found[pattern] = decision
    return found


def _pattern(text: str, said: str, name: str) -> str:
    """A pattern as it is, a licence in SPDX's own spelling: expressions are compared in that ("GPL-3.0-only")."""
    if _JOINED.search(text):
        _invalid(name, f"{said}, which is more than one licence")
    if set(text) & set(_WILD):
        return text
    try:
        if any(map(_is_misspelt, expression.unlisted(text))):
            _invalid(name, f"{said}, which SPDX does not list")
        return expression.normal(text)
    except FarmError as reason:
        if reason.code is Code.LICENCE_POLICY_INVALID:
            raise
        _invalid(name, f"{said}: {reason.why}")


def _is_misspelt(name: str) -> bool:
    return not name.startswith("LicenseRef-")


def _texts(value: Any, where: str, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        _invalid(name, f"{where} is no list of texts")
    return value


def _invalid(name: str, why: str) -> NoReturn:
    raise FarmError(
        Code.LICENCE_POLICY_INVALID,
        f"{name} is not a licence policy",
        why,
        "`farm licences --help` shows an example.",
        {"file": name},
    )
