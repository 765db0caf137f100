"""`make bar-A4`: issue A4's bar, measured: what a bundle carries and where it goes. Writes build/bar/A4.json.

    python -m benchmarks.bar_a4 [--small] [NAME...]      only these lines; the file names the others

`--small` releases one model in place of four, for the same six targets, and writes A4-small.json. Exits 1 when a line
does not hold. It needs what `make integration` needs; nothing counts that was skipped. Lines that tests prove are their
counts, with at least one test of everything that the bar names.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks import bar
from benchmarks.bar import Line
from benchmarks.tests_ran import counted, ran
from kernelfarm import oci_bundle
from tests.support import models, pinned_image, release_sequence, sbom_validator
from tests.support.release_sequence import CONSUMER, PRODUCER, Released
from toolchains import target

SBOM = (
    "tests/unit/test_sbom_document.py",
    "tests/unit/test_farm_payload_sbom.py",
    "tests/integration/test_sbom_independent.py",
)
BILLS: Mapping[str, Sequence[str]] = {
    "strict schema": ("valid_by_the_strict_schema",),
    "independent validator": ("test_it_accepts_the_bills", "test_it_refuses_what_is_wrong"),
    "shuffled inputs": ("shuffled_inputs_give", "shuffled_links_files_and_tools"),
}
LICENCES = ("tests/integration/test_licences_planted.py", "tests/integration/test_licences_scancode.py")
PLANTED: Mapping[str, Sequence[str]] = {
    "GPL object in the link": ("gpl_object_that_came_from_nowhere", "gpl_source_in_the_link"),
    "GPL wheel in the lock": ("gpl_wheel_in_the_lock",),
    "expired waiver": ("expired_waiver",),
    "huge file": ("huge_file",),
    "nothing planted": ("clean_farm_is_allowed",),
}
SCRUB = (
    "tests/e2e/test_farm_scrub.py",
    "tests/unit/test_kernelc_frontend_scrub.py",
    "tests/property/test_kernelc_frontend_scrub_fields.py",
    "tests/integration/test_release_sequence.py::test_the_steps_of_the_pipelines_release_a_model_that_a_consumer_can_test",
)
SECRETS: Mapping[str, Sequence[str]] = {
    "payload and attestations": ("no_secret_is_in_any_byte_of_the_bundle",),
    "metadata, doc strings, names": ("no_secret_is_left_wherever_it_was",),
    "any one field": ("a_secret_in_any_one_field_is_gone",),
    "a published release": ("steps_of_the_pipelines_release",),
}
REGISTRY = ("tests/integration/test_release_registry.py",)
FAULTS: Mapping[str, Sequence[str]] = {
    "interrupted push": ("interrupted_push", "publisher_that_was_killed"),
    "concurrent publishers": ("of_concurrent_publishers",),
    "same digest": ("same_release_again_moves_nothing",),
    "another digest": ("a_version_means_one_bundle",),
    "moved tag": ("a_moved_tag",),
    "deleted blob": ("a_deleted_blob",),
    "replaced manifest": ("a_replaced_manifest",),
    "stale mirror": ("a_stale_mirror",),
    "garbage collection": ("garbage_collector",),
    "additions of strangers": ("what_strangers_add",),
}
VERSIONS = ("tests/unit/test_farm_release_compatibility.py", "tests/unit/test_farm_release_versions.py")
RULES: Mapping[str, Sequence[str]] = {
    "rc.10 after rc.9": ("precedence_is_that_of_semver",),
    "build metadata": ("build_metadata_counts_for_nothing",),
    "dropped target": ("[a dropped target]",),
}
PAIR = "a_pair_of_releases_has_the_bump"
PAIRS = 30


def sequence(*, small: bool = False) -> Iterator[Line]:
    """The documented sequence with real models, from build to self-test, and what it leaves."""
    chosen = models.MODELS[:1] if small else models.MODELS
    goals = target.names()
    with tempfile.TemporaryDirectory(dir=models.ROOT / "build") as name:
        folder = Path(name)
        try:
            validator = sbom_validator.installed()
            run = release_sequence.machines(folder, pinned_image.ensure())
            made = release_sequence.release_all(run, folder / "registry", [one.name for one in chosen], goals)
        except (AssertionError, pytest.skip.Exception, pytest.fail.Exception) as reason:
            yield Line("the documented sequence", "a step failed", "all steps end with 0", False, str(reason))
            print(reason, file=sys.stderr)
            return
        yield from _sequence_lines(made, goals)
        bills = [path for one in made for path in _bills(one.bundle)]
        complaints = sbom_validator.complaints(validator, bills)
        figure = f"{len(bills) - len(complaints)} of {len(bills)}"
        holds = not complaints and len(bills) == len(made) * len(goals)
        yield Line("bills of the release, independent validator", figure, "all", holds, complaints)


def _sequence_lines(made: Sequence[Released], goals: Sequence[str]) -> Iterator[Line]:
    cells = len(made) * len(goals)
    seconds = {step: sum(one.seconds[step] for one in made) for step in (*PRODUCER, *CONSUMER)}
    detail = {"seconds": seconds, "payloads": {one.name: one.built for one in made}}
    for steps in (PRODUCER, CONSUMER):
        figure = f"{sum(seconds[step] for step in steps):.0f} s"
        where = "on the farm" if steps is PRODUCER else "with the public key alone"
        holds = all(one.verified and set(one.built) == set(goals) for one in made)
        name = f"{len(made)} models x {len(goals)} targets, {where}"
        yield Line(name, figure, ", ".join(steps), holds, detail)
    for name, found in (
        ("payloads of a second worker", [one.rebuilt for one in made]),
        ("payloads as fetched", [one.fetched for one in made]),
    ):
        same = sum(one.built[goal] == there.get(goal) for one, there in zip(made, found, strict=True) for goal in goals)
        yield Line(name, f"{same} of {cells} as built", "all, bills among them", same == cells)
    ways = [how for one in made for how in one.self_tests.values()]
    native = sum(how == "native" for how in ways)
    unable = release_sequence.untestable(goals)
    figure = f"{len(ways)} of {cells}, {native} native" + "".join(f", not {goal} (processor)" for goal in unable)
    holds = all(set(one.self_tests) == set(goals) - set(unable) for one in made)
    tests = [one.self_tests for one in made]
    yield Line("self-tests of the fetched release", figure, "all that this processor can run", holds, tests)


def _bills(bundle: Path) -> list[Path]:
    view = oci_bundle.read(bundle).require()
    return [view.folder.blob_path(payload.files["sbom.cdx.json"]) for payload in view.payloads]


def sbom() -> Iterator[Line]:
    """Bills of materials: both validators, shuffled inputs."""
    yield from counted(ran(SBOM), "bills of materials", BILLS)


def licences() -> Iterator[Line]:
    """What is planted, through the real commands and the real scanner."""
    yield from counted(ran(LICENCES), "planted licences that are refused by name", PLANTED)


def secrets() -> Iterator[Line]:
    """Secrets in the model."""
    yield from counted(ran(SCRUB), "secrets of a model that are in no byte", SECRETS)


def registry() -> Iterator[Line]:
    """What a registry does, or somebody to it."""
    yield from counted(ran(REGISTRY), "faults of a registry that are noticed", FAULTS)


def versions() -> Iterator[Line]:
    """Pairs of releases, and the order of versions."""
    found = ran(VERSIONS)
    yield from counted(found, "versions", RULES)
    pairs = sum(PAIR in name and end == "passed" for name, end in found.ends.items())
    figure, asked, holds = f"{pairs} pairs", f">= {PAIRS}", found.covers([PAIR], PAIRS)
    yield Line("pairs of releases with the expected bump", figure, asked, holds, lacking=found.lacking)


def measures(*, small: bool) -> Mapping[str, Callable[[], Iterator[Line]]]:
    """The lines by name, the cheap ones first."""
    return {
        "versions": versions,
        "registry": registry,
        "sbom": sbom,
        "secrets": secrets,
        "licences": licences,
        "sequence": functools.partial(sequence, small=small),
    }


def main(words: list[str]) -> int:
    """Measure the named lines, or all."""
    smaller = "release one model in place of four, into A4-small.json"
    given = bar.options("A4", __doc__, list(measures(small=False)), words, small=smaller)
    return bar.measure("A4-small" if given.small else "A4", given.lines, measures(small=given.small))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
