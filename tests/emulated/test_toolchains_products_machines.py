"""The gate of library and program on every other machine: one without a property is refused for that property.

The disassembler of riscv64 and hexagon comes with the emulators, hence the level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelfarm.errors import FarmError
from tests.support import device, emulated, product_changes
from tests.support.product_changes import Case
from toolchains import products, runtime_build, zig
from toolchains.properties import ProductProperty, Property


def cases(name: str) -> list[Case]:
    """What the machine can have."""
    machine = emulated.load(name).machine
    found = [*product_changes.COMMON, *product_changes.RELOCATED]
    found += product_changes.GUARDED if machine == "aarch64" else []
    return [*found, *product_changes.branches(machine), *product_changes.features(machine)]


CASES = [(name, *case) for name in emulated.NAMES for case in cases(name)]


@pytest.mark.parametrize(
    ("name", "lost", "product", "damage", "why"), CASES, ids=[f"{c[0]}-{c[1].value}-{k}" for k, c in enumerate(CASES)]
)
def test_a_product_without_a_property_is_refused_by_its_name(
    tmp_path: Path,
    name: str,
    lost: Property | ProductProperty,
    product: str,
    damage: product_changes.Damage,
    why: str,
) -> None:
    goal = emulated.load(name)
    emulated.prefix(goal)

    found = product_changes.finding(tmp_path, goal, product, damage, lost)

    assert not found.holds
    assert why in found.evidence


@pytest.mark.parametrize("name", emulated.NAMES)
def test_products_without_canaries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    goal = emulated.load(name)
    emulated.prefix(goal)
    monkeypatch.setattr(zig, "KCFI", (*zig.KCFI, "-fno-stack-protector"))
    (tmp_path / "out").mkdir()
    (tmp_path / "work").mkdir()
    runtime_build.build_runtime(goal, tmp_path / "out", tmp_path / "work")

    with pytest.raises(FarmError) as caught:
        products.require_both(goal, tmp_path / "out")

    assert caught.value.detail["property"] == "stack-protector"


@pytest.mark.parametrize("name", emulated.NAMES)
def test_functions_handed_on_by_their_address_alone_are_followed(tmp_path: Path, name: str) -> None:
    goal = emulated.load(name)
    emulated.prefix(goal)

    facts = product_changes.handing(tmp_path, goal)

    assert product_changes.found_in(goal, facts, Property.NO_INDIRECT_BRANCH).holds
    assert len(facts.elf.entered) == 1
    assert len({taken.to for taken in facts.code.taken} & set(facts.code.running)) == 2


@pytest.mark.parametrize("name", emulated.NAMES)
def test_an_indirect_branch_behind_an_address_taken_in_code_is_found(tmp_path: Path, name: str) -> None:
    goal = emulated.load(name)
    emulated.prefix(goal)
    facts = product_changes.handing(tmp_path, goal, "KF_TEST_JUMP")

    found = product_changes.found_in(goal, facts, Property.NO_INDIRECT_BRANCH)

    assert not found.holds
    assert found.function.startswith(f"{facts.code.taken[1].to:#x}+")
    assert "it has no check before it" in found.evidence


def test_a_function_without_a_pad_whose_address_code_takes_is_refused_by_name_and_offset(tmp_path: Path) -> None:
    goal = emulated.load("aarch64")
    emulated.prefix(goal)
    facts = product_changes.handing(tmp_path, goal, "KF_TEST_BARE")

    found = product_changes.found_in(goal, facts, Property.LANDING_PADS)

    bare = facts.code.taken[1]
    assert (found.holds, found.function, found.offset) == (False, f"{bare.to:#x}+0x0", bare.to)
    assert found.evidence == f"no landing pad at {bare.to:#x}, whose address is taken at {bare.at:#x}"


@pytest.mark.parametrize("name", emulated.NAMES)
def test_products_take_no_address_of_code_outside_of_data(name: str) -> None:
    goal = emulated.load(name)
    emulated.prefix(goal)

    for product in (runtime_build.LIBRARY, runtime_build.PROGRAM):
        assert products.inspect(device.runtime(goal) / product).code.taken == ()


LATER: dict[str, dict[str, Any]] = {
    "aarch64": {"cpu": "neoverse-v2"},
    "armv7": {"cpu": "cortex-a15", "baseline": ("-mfpu=neon-vfpv4",)},
    "riscv64": {"codegen": ("-march=rv64gc_zba_zbb_zicond", "-mllvm", "-align-all-functions=2")},
}


@pytest.mark.parametrize("name", LATER)
def test_products_for_a_later_processor_are_refused_whatever_they_say_of_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    goal = emulated.load(name)
    emulated.prefix(goal)
    folder = product_changes.built_for(monkeypatch, tmp_path, goal, **LATER[name])

    for product in (runtime_build.LIBRARY, runtime_build.PROGRAM):
        report = products.report(goal, products.inspect(folder / product))

        (found,) = (finding for finding in report.findings if finding.property is Property.FEATURE_SET)
        assert not found.holds
        assert f"no instruction of {goal.cpu.baseline}" in found.evidence
