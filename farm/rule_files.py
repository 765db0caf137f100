"""Fusion rules of a user: read and checked here, where YAML may be; a compile gets their canonical form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelc.explanation import Resting
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RuleSet
from kernelfarm.store import ContentStore


@dataclass(frozen=True, slots=True)
class UserRules:
    """The rules of files as they were when they were read: `data` is their canonical form, empty without a rule."""

    files: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    resting: tuple[Resting, ...] = ()
    data: bytes = b""

    @classmethod
    def load(cls, paths: Sequence[Path]) -> UserRules:
        """The rules of these files; raises `FarmError` as `kernelc.fusion.load`."""
        if not paths:
            return cls()
        from kernelc import fusion  # here: most builds bring no rules

        rules = fusion.load(paths)
        names = tuple(rule.name for rule in rules)
        resting = tuple(Resting(rule.name, rule.lacks) for rule in rules if rule.lacks)
        return cls(tuple(paths), names, resting, fusion.to_json(rules) if rules else b"")

    def put(self, store: ContentStore) -> RuleSet | None:
        """Have the rules in the store; what options name them by, None without a rule. Raises as the store."""
        return RuleSet(store.put_bytes(self.data), len(self.data)) if self.data else None

    def to_json(self) -> dict[str, Any]:
        """What a report says of them."""
        return {
            "digest": digest.of_bytes(self.data) if self.data else None,
            "names": list(self.names),
            "resting": [{"name": one.name, "lacks": list(one.lacks)} for one in self.resting],
        }


NO_RULES = UserRules()
"""Those of who gives no file."""


def require(wanted: RuleSet | None, store: ContentStore, given: UserRules) -> None:
    """Make sure that the store holds the rules that a payload was compiled with, taking them from `given`.

    Raises `FarmError` RULES_UNAVAILABLE, also where `given` holds other rules.
    """
    if given.files and given.put(store) != wanted:
        raise _unavailable(wanted, f"the given files hold {given.to_json()['digest'] or 'no rule'}")
    if wanted is not None and not store.has(wanted.digest):
        raise _unavailable(wanted, f"the store lacks {wanted.digest}")


def _unavailable(wanted: RuleSet | None, why: str) -> FarmError:
    if wanted is None:
        advice = "It was compiled with the farm's own rules alone: leave --rules out."
        return FarmError(Code.RULES_UNAVAILABLE, "the payload was compiled without rule files", why, advice)
    what, advice = "the fusion rules of the payload are not at hand", "Give the rule files of its build with --rules."
    return FarmError(Code.RULES_UNAVAILABLE, what, why, advice, {"digest": wanted.digest})
