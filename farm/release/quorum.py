"""Whether enough builds agree on a payload, and whether they were made apart. Pure.

Both builds of a pair are said by statements under the farm's own key; a worker through the gate is who its certificate
says. What this is not: two independently operated builders. One farm compiling twice finds a stolen worker, a broken
machine and a compiler that is not deterministic, not a farm that lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from farm.release.channels import Apart, Channel
from kernelfarm import nouns
from kernelfarm.digest import Digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Comparison
from signing import comparison
from signing.comparison import COMPARISON
from signing.release import Build
from signing.statement import PROVENANCE, Provenance, Statement

HOST, WORKER = "name", "worker"
"""Keys of the facts of a host in a provenance."""


def agreed(target: str, payload: Digest, statements: Iterable[Statement], channel: Channel) -> tuple[Build, ...]:
    """The agreeing builds of the payload for a target, the original first.

    Raises `FarmError` BUILDS_DISAGREE when any rebuild gave other bytes, however many agree, and BUILDS_TOO_FEW.
    """
    about = sorted((item for item in statements if item.subjects[0].digest == payload), key=Statement.encode)
    origins = [item for item in about if item.predicate_type == PROVENANCE]
    if len(origins) != 1:
        raise _too_few(target, payload, channel, "there is not one provenance of the payload")
    made = Provenance.from_statement(origins[0], "")
    first = Build(made.host.get(WORKER, ""), made.host.get(HOST, ""), made.execution.runner, origins[0].identity)
    builds = [first]
    require_no_disagreement(target, payload, about)
    for item in about:
        if item.predicate_type == COMPARISON:
            found = comparison.from_statement(item, "")
            if found.recipe_key == nouns.recipe_key(made.recipe):
                builds.append(Build(found.worker, found.host, found.execution.runner, item.identity))
    apart = _apart(builds, channel.apart)
    if len(apart) < channel.builds:
        why = f"{len(apart)} of {len(builds)} builds on record are by different {channel.apart.value}s"
        raise _too_few(target, payload, channel, why)
    return tuple(apart)


def require_no_disagreement(target: str, payload: Digest, statements: Iterable[Statement]) -> None:
    """Raises `FarmError` BUILDS_DISAGREE when any rebuild of the payload gave other bytes, whoever made it and when."""
    found = [comparison.from_statement(item, "") for item in statements if item.predicate_type == COMPARISON]
    if unlike := [item for item in found if item.original == payload and not item.same]:
        raise _disagree(target, payload, unlike)


def _apart(builds: Sequence[Build], apart: Apart) -> list[Build]:
    """The builds that differ in what must differ; one whose maker is not on record counts as nobody's."""
    chosen: dict[str, Build] = {}
    for build in builds:
        maker = build.worker if apart is Apart.WORKER else build.host
        if maker:
            chosen.setdefault(maker, build)
    return list(chosen.values())


def _too_few(target: str, payload: Digest, channel: Channel, why: str) -> FarmError:
    return FarmError(
        Code.BUILDS_TOO_FEW,
        f"the payload for {target} has too few agreeing builds",
        f"{why}; the channel {channel.name} demands {channel.builds}",
        f"Run `farm rebuild BUNDLE -t {target}`, on another host where these must differ.",
        {"target": target, "payload": payload},
    )


def _disagree(target: str, payload: Digest, unlike: Sequence[Comparison]) -> FarmError:
    first = unlike[0]
    named = ", ".join(item.name for item in first.differences) or "its manifest"
    return FarmError(
        Code.BUILDS_DISAGREE,
        f"builds of the payload for {target} disagree",
        f"{len(unlike)} rebuilds gave other bytes, the first by {first.worker or 'an unknown worker'}: {named}",
        "Find the cause with `farm rebuild --vary`, one word at a time, and build again: this payload is not released.",
        {
            "target": target,
            "payload": payload,
            "rebuilt": first.rebuilt,
            "files": [item.name for item in first.differences],
        },
    )
