"""The gate of library and program on x86-64: they pass, and one without a property is refused for that property."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from farm import inspect
from kernelfarm.errors import Code, FarmError
from tests.support import device, product_changes
from tests.support.product_changes import Case
from toolchains import flow, products, runtime_build, zig
from toolchains.properties import ProductProperty, Property
from toolchains.runtime_build import HEADER, LIBRARY, PROGRAM

CASES: list[Case] = [
    *product_changes.COMMON,
    *product_changes.GUARDED,
    *product_changes.branches("x86-64"),
    *product_changes.features("x86-64"),
]


@pytest.mark.parametrize(
    ("lost", "name", "damage", "why"), CASES, ids=[f"{c[0].value}-{k}" for k, c in enumerate(CASES)]
)
def test_a_product_without_a_property_is_refused_by_its_name(
    tmp_path: Path, lost: Property | ProductProperty, name: str, damage: product_changes.Damage, why: str
) -> None:
    found = product_changes.finding(tmp_path, device.TARGET, name, damage, lost)

    assert not found.holds
    assert why in found.evidence


@pytest.mark.parametrize(
    ("flags", "lost", "why"),
    [
        ((*zig.KCFI, "-fno-stack-protector"), "stack-protector", "no canary"),
        ((), "kcfi", "there is no checked call"),
    ],
)
def test_products_compiled_without_protection_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], lost: str, why: str
) -> None:
    monkeypatch.setattr(zig, "KCFI", flags)
    (tmp_path / "out").mkdir()
    (tmp_path / "work").mkdir()
    runtime_build.build_runtime(device.TARGET, tmp_path / "out", tmp_path / "work")

    with pytest.raises(FarmError) as caught:
        products.require_both(device.TARGET, tmp_path / "out")

    assert caught.value.code is Code.HARDENING_MISSING
    assert (caught.value.detail["property"], caught.value.detail["product"]) == (lost, LIBRARY)
    assert why in caught.value.why


def test_products_for_a_later_processor_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = product_changes.built_for(monkeypatch, tmp_path, device.TARGET, cpu="haswell")

    with pytest.raises(FarmError) as caught:
        products.require_both(device.TARGET, folder)

    assert caught.value.detail["property"] == "feature-set"
    assert " needs " in caught.value.why


@pytest.mark.parametrize("name", [LIBRARY, PROGRAM])
@pytest.mark.parametrize("text", ["C:\\Users\\jo\\x.obj", "root@buildbox-7", "clang version 22.1.8"])
def test_a_product_that_names_its_builder_is_refused(tmp_path: Path, name: str, text: str) -> None:
    def damage(data: bytes, _: products.ProductFacts) -> bytes:
        return product_changes.put(data, product_changes.GAP, text.encode() + b"\0")

    found = product_changes.finding(tmp_path, device.TARGET, name, damage, Property.NO_BUILD_PATH)

    assert (found.holds, found.evidence) == (False, f"holds {text}")


def test_a_fault_is_placed_by_file_function_and_offset(tmp_path: Path) -> None:
    for name in (PROGRAM, HEADER):
        shutil.copyfile(device.runtime() / name, tmp_path / name)
    path = device.runtime() / LIBRARY
    facts = products.inspect(path)
    jump = product_changes.code("ffe0")  # jmpq *%rax
    (tmp_path / LIBRARY).write_bytes(jump(path.read_bytes(), facts))

    with pytest.raises(FarmError) as caught:
        products.require_both(device.TARGET, tmp_path)

    assert caught.value.what == f"{LIBRARY} for x86-64-v3 lacks no-indirect-branch in media_api_version+0x4"
    assert caught.value.detail == {
        "property": "no-indirect-branch",
        "product": LIBRARY,
        "function": "media_api_version+0x4",
        "offset": product_changes.start(facts) + 4,
        "target": "x86-64-v3",
    }


def test_a_jump_into_the_check_is_refused(tmp_path: Path) -> None:
    damage = product_changes.aimed("e9", lambda facts: facts.code.indirect[0])  # jmp

    found = product_changes.finding(tmp_path, device.TARGET, LIBRARY, damage, Property.NO_INDIRECT_BRANCH)

    assert not found.holds
    assert "goes into its check" in found.evidence


def test_an_address_taken_inside_the_check_is_refused(tmp_path: Path) -> None:
    damage = product_changes.aimed("48 8d 05", lambda facts: facts.code.indirect[0])  # lea

    found = product_changes.finding(tmp_path, device.TARGET, LIBRARY, damage, Property.NO_INDIRECT_BRANCH)

    assert not found.holds
    assert "it can be entered at" in found.evidence


def test_where_code_takes_an_address_an_instruction_must_start(tmp_path: Path) -> None:
    def last(facts: products.ProductFacts) -> int:
        segment = next(s for s in facts.elf.segments if "x" in s.access)
        return segment.address + segment.file_size - 1

    damage = product_changes.aimed("48 8d 05", last)  # lea

    lost = (Property.NO_INDIRECT_BRANCH, Property.LANDING_PADS)
    found = [product_changes.finding(tmp_path, device.TARGET, PROGRAM, damage, wanted) for wanted in lost]

    assert [finding.holds for finding in found] == [False, False]


def test_functions_handed_on_by_their_address_alone_have_pads_and_are_followed(tmp_path: Path) -> None:
    facts = product_changes.handing(tmp_path, device.TARGET)

    pads = product_changes.found_in(device.TARGET, facts, Property.LANDING_PADS)
    assert (pads.holds, pads.evidence) == (
        True,
        "at each of 3 entries, 2 of them functions whose address code takes",
    )
    assert len(facts.elf.entered) == 1
    assert {taken.to for taken in facts.code.taken} <= set(facts.code.running)


def test_a_function_without_a_pad_whose_address_code_takes_is_refused_by_name_and_offset(tmp_path: Path) -> None:
    facts = product_changes.handing(tmp_path, device.TARGET, "KF_TEST_BARE")

    found = product_changes.found_in(device.TARGET, facts, Property.LANDING_PADS)

    bare = facts.code.taken[1]
    assert (found.holds, found.function, found.offset) == (False, f"{bare.to:#x}+0x0", bare.to)
    assert found.evidence == f"no landing pad at {bare.to:#x}, whose address is taken at {bare.at:#x}"


def test_an_indirect_branch_behind_an_address_taken_in_code_is_found(tmp_path: Path) -> None:
    facts = product_changes.handing(tmp_path, device.TARGET, "KF_TEST_JUMP")

    found = product_changes.found_in(device.TARGET, facts, Property.NO_INDIRECT_BRANCH)

    assert not found.holds
    assert found.function.startswith(f"{facts.code.taken[1].to:#x}+")
    assert "it has no check before it" in found.evidence


def test_products_take_no_address_of_code_outside_of_data() -> None:
    for name in (LIBRARY, PROGRAM):
        assert products.inspect(device.runtime() / name).code.taken == ()


def test_a_program_exports_nothing(tmp_path: Path) -> None:
    shutil.copyfile(device.runtime() / LIBRARY, tmp_path / PROGRAM)

    with pytest.raises(FarmError) as caught:
        products.require(device.TARGET, products.inspect(tmp_path / PROGRAM))

    assert caught.value.detail["property"] == "exports"


@pytest.mark.parametrize("name", [LIBRARY, PROGRAM])
def test_a_product_alone_can_be_inspected(name: str) -> None:
    found = inspect.inspect(device.runtime() / name)["hardening"]

    assert set(found["properties"]) == {item.value for item in products.PROPERTIES}
    assert all(item["holds"] for item in found["properties"].values())


def test_behind_a_call_that_never_returns_may_stand_anything() -> None:
    lines = {0: "bl 0x8", 4: "<unknown>", 8: "brk #0x1", 12: "ret"}

    found = flow.follow(flow.steps(flow.units(lines, "aarch64"), "aarch64"), [0])

    assert (found.reached, found.missing, found.returning) == ({0, 8}, frozenset(), frozenset())


def test_a_call_that_may_return_goes_on_behind_it_even_when_that_is_known_late() -> None:
    lines = {0: "bl 0x8", 4: "ret", 8: "cbz x0, 0x10", 12: "b 0x8", 16: "ret"}

    found = flow.follow(flow.steps(flow.units(lines, "aarch64"), "aarch64"), [0])

    assert found.reached == {0, 4, 8, 12, 16}
    assert found.returning == {0, 8}


def test_a_far_branch_of_riscv_is_followed() -> None:
    lines = {0: "auipc ra, 0x0", 4: "jalr 0xc(ra)", 8: "ret", 12: "auipc t1, 0xfffff", 16: "jr 0x100(t1)"}

    found = flow.follow(flow.steps(flow.units(lines, "riscv64"), "riscv64"), [0])

    assert found.calls == ((4, 12),)
    assert found.jumps == ((16, 12 - 0x1000 + 0x100),)


def test_a_packet_of_hexagon_runs_as_a_whole() -> None:
    lines = {0: "{ jump 0x10", 4: "r0 = #0x0 }", 8: "<unknown>", 16: "{ r1 = #0x0; jumpr r31 }"}
    units = flow.units(lines, "hexagon")

    assert units[0] == [(0, "jump 0x10"), (4, "r0 = #0x0")]
    assert flow.follow(flow.steps(units, "hexagon"), [0]).reached == {0, 16}
