"""The runtime as shipped for every machine: hardened as read from its bytes, needing nothing, calls checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import device, emulated
from toolchains import products, runtime_build
from toolchains.target import Target

LIBRARY, PROGRAM = "libmedia_engine.so", "media-run"


@pytest.fixture(params=emulated.NAMES)
def goal(request: pytest.FixtureRequest) -> Target:
    found = emulated.load(request.param)
    emulated.prefix(found)
    return found


def test_the_products_have_every_property_that_their_machine_can_have(goal: Target) -> None:
    for found in products.require_both(goal, device.runtime(goal)):
        assert {*(finding.property for finding in found.findings), *found.impossible} == set(products.PROPERTIES)
        assert set(found.impossible) <= set(goal.hardening.impossible)


def test_the_same_bytes_again(goal: Target, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "wörk").mkdir()
    runtime_build.build_runtime(goal, tmp_path / "out", tmp_path / "wörk")

    for name in (LIBRARY, PROGRAM):
        assert (tmp_path / "out" / name).read_bytes() == (device.runtime(goal) / name).read_bytes()
