"""Versions: semver.org's precedence, and which one comes next."""

from __future__ import annotations

import itertools

import pytest

from farm.release import versions
from farm.release.versions import Level, parse
from kernelfarm.errors import Code, FarmError


def test_the_precedence_is_that_of_semver_org() -> None:
    written = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0-rc.9"
    ordered = [parse(text) for text in [*written.split(), "1.0.0-rc.10", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0"]]

    for (first, low), (second, high) in itertools.product(enumerate(ordered), repeat=2):
        assert (low < high) == (first < second)


def test_build_metadata_counts_for_nothing() -> None:
    assert parse("1.0.0+a") == parse("1.0.0+b") == parse("1.0.0")
    assert parse("1.0.0-rc.1+a").tag == "1.0.0-rc.1"


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3 ", "1.2.3-ä", "1" * 90 + ".0.0-aaaaaaaaaa"],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(FarmError) as caught:
        parse(text)
    assert caught.value.code is Code.VERSION_INVALID


@pytest.mark.parametrize(
    ("released", "level", "pre", "expected"),
    [
        ([], Level.NONE, "", "1.0.0"),
        ([], Level.NONE, "rc", "1.0.0-rc.1"),
        (["1.0.0-rc.1"], Level.NONE, "rc", "1.0.0-rc.2"),
        ([f"1.0.0-rc.{n}" for n in range(1, 10)], Level.NONE, "rc", "1.0.0-rc.10"),
        ([f"1.0.0-rc.{n}" for n in range(1, 11)], Level.NONE, "rc", "1.0.0-rc.11"),
        (["1.0.0-rc.1"], Level.NONE, "", "1.0.0"),
        (["1.2.3"], Level.PATCH, "", "1.2.4"),
        (["1.2.3"], Level.MINOR, "", "1.3.0"),
        (["1.2.3"], Level.MAJOR, "", "2.0.0"),
        (["0.2.3"], Level.PATCH, "", "0.2.4"),
        (["0.2.3"], Level.MINOR, "", "0.2.4"),
        (["0.2.3"], Level.MAJOR, "", "0.3.0"),
        (["1.9.0", "1.10.0"], Level.PATCH, "", "1.10.1"),
        (["1.2.3", "2.0.0-rc.1"], Level.PATCH, "rc", "2.0.0-rc.2"),
        (["1.2.3", "2.0.0-rc.1"], Level.PATCH, "", "2.0.0"),
        (["1.2.3", "1.2.4-rc.1"], Level.MAJOR, "rc", "2.0.0-rc.1"),
        (["1.2.3-rc.4", "1.2.3"], Level.PATCH, "rc", "1.2.4-rc.1"),
        (["1.2.3+old"], Level.PATCH, "", "1.2.4"),
        (["1.2.4-beta.2", "1.2.3"], Level.PATCH, "rc", "1.2.4-rc.1"),
    ],
)
def test_the_next_version(released: list[str], level: Level, pre: str, expected: str) -> None:
    known = [parse(text) for text in released]

    found = versions.following(known, versions.last_final(known), level, pre)

    assert found.text == expected
    assert all(found > version for version in known)


@pytest.mark.parametrize(
    ("released", "base", "level", "expected"),
    [
        (["1.0.0", "1.0.1"], "1.0.0", Level.PATCH, "1.0.2"),  # 1.0.1 was released, and never published
        (["1.0.0", "1.0.1"], "1.0.0", Level.MAJOR, "2.0.0"),
        (["1.0.0", "2.0.0"], "1.0.0", Level.MAJOR, "2.0.1"),
        (["1.0.0", "1.1.0-rc.1", "1.1.0"], "1.0.0", Level.PATCH, "1.1.1"),
        (["1.0.0-rc.1", "1.0.0"], None, Level.NONE, "1.0.1"),
    ],
)
def test_what_was_released_and_not_published_keeps_its_number(
    released: list[str], base: str | None, level: Level, expected: str
) -> None:
    found = versions.following([parse(text) for text in released], base and parse(base), level)  # type: ignore[arg-type]

    assert found.text == expected


@pytest.mark.parametrize(
    ("chosen", "released"), [("1.0.0-rc.9", "1.0.0-rc.10"), ("1.0.0-rc.1", "1.0.0"), ("1.0.0+b", "1.0.0+a")]
)
def test_a_version_that_does_not_follow_is_refused(chosen: str, released: str) -> None:
    with pytest.raises(FarmError) as caught:
        versions.require_next(parse(chosen), [parse(released)])
    assert caught.value.code is Code.VERSION_NOT_NEXT


@pytest.mark.parametrize(
    ("chosen", "level", "fits"),
    [
        ("1.2.4", Level.PATCH, True),
        ("1.2.4", Level.MINOR, False),
        ("1.3.0", Level.MINOR, True),
        ("1.3.0-rc.1", Level.MINOR, True),
        ("1.3.0", Level.MAJOR, False),
        ("2.0.0", Level.MAJOR, True),
        ("2.0.0", Level.PATCH, True),
    ],
)
def test_a_version_may_not_hide_a_change(chosen: str, level: Level, fits: bool) -> None:
    base = parse("1.2.3")
    if fits:
        versions.require_level(parse(chosen), base, level, ["why"])
    else:
        with pytest.raises(FarmError) as caught:
            versions.require_level(parse(chosen), base, level, [f"{level.word}: the target x is dropped"])
        assert caught.value.code is Code.BUMP_TOO_LOW
        assert caught.value.why == f"since 1.2.3, {level.word}: the target x is dropped"
