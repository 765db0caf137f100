"""Keys: every input of a recipe changes it, everything else does not. The golden keys make a change deliberate."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from containers.image import pins
from farm import actions
from farm.actions import Job, Toolbox, job_of
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Execution, Model, ModelFile, Options, RuleSet, ToolIdentity, execution_key, recipe_key
from tests.support.farms import BOX
from toolchains import target
from toolchains.target import Target

MODEL = Model("cls", digest.of_bytes(b"model"), 5, (ModelFile("w.bin", digest.of_bytes(b"w"), 1),))
OPTIONS = Options.of({"x": (1, 3, 48, 192)})
V3 = target.load("x86-64-v3")


def job(model: Model = MODEL, on: Target = V3, options: Options = OPTIONS, box: Toolbox = BOX) -> Job:
    return job_of(model, on, options, box)


BASE = job().action

INPUTS = {
    "model bytes": job(replace(MODEL, digest=digest.of_bytes(b"other"))),
    "model before scrubbing": job(replace(MODEL, before=digest.of_bytes(b"with names"))),
    "model name": job(replace(MODEL, name="other")),
    "external data": job(replace(MODEL, external=(ModelFile("w.bin", digest.of_bytes(b"v"), 1),))),
    "place of external data": job(replace(MODEL, external=(ModelFile("v.bin", digest.of_bytes(b"w"), 1),))),
    "no external data": job(replace(MODEL, external=())),
    "target": job(on=target.load("x86-64-v4")),
    "a fact of the target": job(on=replace(V3, preference=V3.preference + 1)),
    "shape": job(options=Options.of({"x": (1, 3, 48, 96)})),
    "name of the input": job(options=Options.of({"y": (1, 3, 48, 192)})),
    "no shape": job(options=Options()),
    "fusion rules": job(options=replace(OPTIONS, rules=RuleSet(digest.of_bytes(b"rules"), 5))),
    "compiler": job(box=replace(BOX, compiler_source=digest.of_bytes(b"other"))),
    "runtime": job(box=replace(BOX, runtime_source=digest.of_bytes(b"other"))),
    "tool bytes": job(box=replace(BOX, tools=(ToolIdentity("ziglang", "0.17.0", digest.of_bytes(b"other")),))),
    "tool version": job(box=replace(BOX, tools=(ToolIdentity("ziglang", "0.17.1", digest.of_bytes(b"zig")),))),
    "one tool more": job(box=replace(BOX, tools=(*BOX.tools, ToolIdentity("onnx", "1.23", digest.of_bytes(b"o"))))),
    "bill of materials": job(box=replace(BOX, sbom_source=digest.of_bytes(b"sbom"))),
    "IR version": job(box=replace(BOX, ir_version="0.2.0")),
    "ABI version": job(box=replace(BOX, abi_version=2)),
}

EXECUTIONS = {
    "architecture": Execution(image=None, builder_arch="aarch64", runner="process"),
    "runner": Execution(image=None, builder_arch="x86_64", runner="bwrap"),
    "image": Execution(image=digest.of_bytes(b"image"), builder_arch="x86_64", runner="process"),
}


@pytest.mark.parametrize("changed", INPUTS.values(), ids=INPUTS)
def test_every_input_changes_both_keys(changed: Job) -> None:
    assert changed.action.recipe_key != BASE.recipe_key
    assert changed.action.execution_key != BASE.execution_key


def test_no_two_of_these_changes_give_the_same_key() -> None:
    keys = {BASE.recipe_key, *(changed.action.recipe_key for changed in INPUTS.values())}
    assert len(keys) == len(INPUTS) + 1


@pytest.mark.parametrize("execution", EXECUTIONS.values(), ids=EXECUTIONS)
def test_how_it_is_run_changes_the_execution_key_alone(execution: Execution) -> None:
    changed = job(box=replace(BOX, execution=execution)).action
    assert changed.recipe_key == BASE.recipe_key
    assert changed.execution_key != BASE.execution_key


def test_time_place_locale_cores_and_order_change_neither(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    tools = (ToolIdentity("a", "1", digest.of_bytes(b"a")), ToolIdentity("b", "1", digest.of_bytes(b"b")))
    shapes = {"x": (1, 2), "y": (3, 4)}
    forward = job(options=Options.of(shapes), box=replace(BOX, tools=tools))
    backward = job(options=Options.of(dict(reversed(shapes.items()))), box=replace(BOX, tools=tools[::-1]))
    assert forward == backward
    assert job().action == BASE


def test_golden_keys() -> None:
    # A change here empties every cache and breaks comparison with older builds: make it on purpose, and say so.
    fixed = replace(BASE.recipe, target_digest=digest.of_bytes(b"target"))
    assert recipe_key(fixed) == "sha256:3f456785ddce8f68f4902ff7a79012eb67a1c8f4cec8bc7fc7bd131aa12cd860"
    assert (
        execution_key(recipe_key(fixed), BOX.execution)
        == "sha256:a4c74853651f0a047dc05b87bdb6c92045382862a82f7316900cbea206e66b35"
    )


def test_a_job_survives_the_ledger() -> None:
    wanted = job()
    assert canonical.decode(Job, canonical.encode(wanted)) == wanted
    assert Target.from_json(wanted.target) == V3


def rooms(folder: Path) -> dict[str, Path]:
    made = {}
    for name in actions.COMPILER_ROOMS:
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
        (folder / name / "inner" / "rules.yaml").write_text("a: 1\n")
        made[name] = folder / name
    (folder / "toolchains" / "targets").mkdir()
    (folder / "toolchains" / "targets" / "new.toml").write_text("")
    return made


def test_any_source_file_changes_the_compilers_digest(tmp_path: Path) -> None:
    made = rooms(tmp_path)
    before = actions.compiler_source(made)
    for path in (
        tmp_path / "kernelc/inner/rules.yaml",
        tmp_path / "kernelfarm/__init__.py",
        tmp_path / "toolchains/inner/added.py",
        tmp_path / "toolchains/flags.ini",
    ):
        path.write_text("changed\n")
        after = actions.compiler_source(made)
        assert after != before, path
        before = after


def test_target_files_devices_byte_code_and_the_place_do_not_change_it(tmp_path: Path) -> None:
    made = rooms(tmp_path / "one")
    before = actions.compiler_source(made)
    (tmp_path / "one/toolchains/targets/other.toml").write_text("name = 'other'\n")
    (tmp_path / "one/toolchains/devices.toml").write_text("[board]\n")
    (tmp_path / "one/kernelc/__pycache__").mkdir()
    (tmp_path / "one/kernelc/__pycache__/x.pyc").write_bytes(b"x")
    (tmp_path / "one/kernelc/inner/__pycache__").mkdir()
    (tmp_path / "one/kernelc/inner/__pycache__/x.pyc").write_bytes(b"x")
    assert actions.compiler_source(made) == before
    assert actions.compiler_source(rooms(tmp_path / "two words")) == before


def test_a_job_of_other_sources_is_not_current() -> None:
    with pytest.raises(FarmError) as caught:
        actions.require_current(job())
    assert caught.value.code is Code.SOURCES_CHANGED


def test_an_edit_of_the_images_lock_changes_every_recipe_and_no_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model, own = Model("cls", digest.of_bytes(b"model"), 5), pins.load()
    before = job_of(model, V3, OPTIONS, actions.toolbox())
    actions.require_current(before)
    edited = pins.Pins(own.packages[1:], own.stand_ins)
    monkeypatch.setattr(pins, "load", lambda: edited)

    after = job_of(model, V3, OPTIONS, actions.toolbox())

    assert after.action.recipe_key != before.action.recipe_key
    assert replace(after.action.recipe, sbom_source=before.action.recipe.sbom_source) == before.action.recipe
    with pytest.raises(FarmError) as caught:
        actions.require_current(before)
    assert caught.value.code is Code.SOURCES_CHANGED


def test_the_toolbox_of_this_installation_is_stable() -> None:
    first = actions.toolbox()
    assert first == actions.toolbox()
    assert "ziglang" in {tool.name for tool in first.tools}
