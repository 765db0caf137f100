"""Each input of a recipe changes the recipe key; nothing else does."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfarm import canonical
from kernelfarm.digest import Digest
from kernelfarm.nouns import (
    Action,
    Execution,
    Model,
    ModelFile,
    Options,
    RecipeInputs,
    Request,
    RuleSet,
    TargetRef,
    ToolIdentity,
    execution_key,
    recipe_key,
)

REPOSITORY = Path(__file__).parents[2]
DIGESTS = st.binary(min_size=32, max_size=32).map(lambda data: Digest("sha256:" + data.hex()))
NAMES = st.text("abyz09", min_size=1, max_size=6)
VERSIONS = st.tuples(*[st.integers(0, 99)] * 3).map(lambda parts: ".".join(str(part) for part in parts))
SHAPES = st.dictionaries(NAMES, st.lists(st.integers(1, 4096), min_size=1, max_size=5).map(tuple), max_size=3)
TOOLS = st.lists(st.builds(ToolIdentity, NAMES, VERSIONS, DIGESTS), max_size=4, unique_by=lambda tool: tool.name)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "model_digest": DIGESTS,
    "target_digest": DIGESTS,
    "options": st.builds(
        lambda shapes, rules: dataclasses.replace(Options.of(shapes), rules=rules),
        SHAPES,
        st.none() | st.builds(RuleSet, DIGESTS, st.integers(0, 99)),
    ),
    "compiler_source": DIGESTS,
    "runtime_source": DIGESTS,
    "tools": TOOLS.map(lambda tools: tuple(sorted(tools, key=lambda tool: tool.name))),
    "ir_version": VERSIONS,
    "abi_version": st.integers(0, 2**31),
    "tuning_db": st.none() | DIGESTS,
    "sbom_source": st.none() | DIGESTS,
}
RECIPES = st.builds(RecipeInputs, **FIELDS)
EXECUTION_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "image": st.none() | DIGESTS,
    "builder_arch": NAMES,
    "runner": NAMES,
}
EXECUTIONS = st.builds(Execution, **EXECUTION_FIELDS)
EXTERNALS = st.lists(st.builds(ModelFile, NAMES, DIGESTS, st.integers(0, 99)), max_size=3, unique_by=lambda f: f.name)
MODELS = st.builds(Model, NAMES, DIGESTS, st.integers(0, 2**40), EXTERNALS.map(tuple))


def test_every_field_of_the_nouns_is_perturbed_below() -> None:
    assert list(FIELDS) == [field.name for field in dataclasses.fields(RecipeInputs)]
    assert list(EXECUTION_FIELDS) == [field.name for field in dataclasses.fields(Execution)]


@given(RECIPES, st.data())
@settings(max_examples=50)
def test_perturbing_any_input_changes_the_recipe_key(recipe: RecipeInputs, data: st.DataObject) -> None:
    for name, strategy in FIELDS.items():
        other = data.draw(strategy.filter(lambda value, name=name: value != getattr(recipe, name)), label=name)
        assert recipe_key(dataclasses.replace(recipe, **{name: other})) != recipe_key(recipe), name


@given(st.lists(st.builds(ToolIdentity, NAMES, VERSIONS, DIGESTS), min_size=1, max_size=3, unique_by=lambda t: t.name))
def test_perturbing_any_part_of_a_tool_changes_the_recipe_key(tools: list[ToolIdentity]) -> None:
    def key(changed: list[ToolIdentity]) -> Digest:
        return recipe_key(dataclasses.replace(_recipe(), tools=tuple(changed)))

    zero = Digest("sha256:" + "0" * 64)
    first, rest = tools[0], tools[1:]
    assert key([dataclasses.replace(first, name=first.name + "A"), *rest]) != key(tools)
    assert key([dataclasses.replace(first, version=first.version + "a"), *rest]) != key(tools)
    assert (key([dataclasses.replace(first, digest=zero), *rest]) == key(tools)) == (first.digest == zero)
    assert key(rest) != key(tools)


@given(SHAPES.filter(bool), st.data())
def test_perturbing_any_dimension_changes_the_recipe_key(
    shapes: dict[str, tuple[int, ...]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(shapes)))
    place = data.draw(st.integers(0, len(shapes[name]) - 1))
    dims = list(shapes[name])
    dims[place] += 1
    before = dataclasses.replace(_recipe(), options=Options.of(shapes))
    after = dataclasses.replace(_recipe(), options=Options.of({**shapes, name: tuple(dims)}))
    assert recipe_key(before) != recipe_key(after)


@given(MODELS, NAMES, DIGESTS, st.integers(0, 99))
def test_perturbing_any_part_of_a_model_changes_its_identity(
    model: Model, name: str, digest: Digest, size: int
) -> None:
    changes: list[dict[str, Any]] = [{"name": name}, {"digest": digest}, {"size": size}]
    changes.append({"external": (*model.external, ModelFile("More", digest, size))})
    if model.external:
        first, rest = model.external[0], model.external[1:]
        changes += [{"external": (dataclasses.replace(first, digest=digest), *rest)}, {"external": rest}]
    for change in changes:
        other = dataclasses.replace(model, **change)
        assert (other.identity == model.identity) == (other == model), change


@given(RECIPES, st.randoms(use_true_random=False))
def test_the_order_in_which_inputs_came_does_not_change_the_recipe_key(recipe: RecipeInputs, random: Any) -> None:
    tools, shapes = list(recipe.tools), list(recipe.options.shapes)
    random.shuffle(tools)
    random.shuffle(shapes)
    shuffled = dataclasses.replace(recipe, tools=tuple(tools), options=Options(tuple(shapes), recipe.options.rules))
    assert recipe_key(shuffled) == recipe_key(recipe)


@given(RECIPES, EXECUTIONS, st.data())
@settings(max_examples=50)
def test_how_it_is_run_changes_the_execution_key_only(
    recipe: RecipeInputs, execution: Execution, data: st.DataObject
) -> None:
    model, target = _model(), TargetRef("t", recipe.target_digest)
    recipe = dataclasses.replace(recipe, model_digest=model.identity)
    action = Action.of(model, target, recipe, execution)
    for name, strategy in EXECUTION_FIELDS.items():
        other = data.draw(strategy.filter(lambda value, name=name: value != getattr(execution, name)), label=name)
        moved = Action.of(model, target, recipe, dataclasses.replace(execution, **{name: other}))
        assert moved.recipe_key == action.recipe_key, name
        assert moved.execution_key != action.execution_key, name


@given(RECIPES, RECIPES, EXECUTIONS)
def test_another_recipe_has_another_execution_key(
    first: RecipeInputs, second: RecipeInputs, execution: Execution
) -> None:
    keys = [execution_key(recipe_key(recipe), execution) for recipe in (first, second)]
    assert (keys[0] == keys[1]) == (first == second)


@given(st.none() | VERSIONS, st.dictionaries(NAMES, NAMES, max_size=3), NAMES, st.integers(1, 9))
def test_what_a_request_says_beside_its_options_changes_no_key(
    version: str | None, labels: dict[str, str], other_target: str, more: int
) -> None:
    model, recipe = _model(), _recipe()
    target = TargetRef("t", recipe.target_digest)
    others = tuple(Model(f"other{number}", recipe.target_digest, number) for number in range(more))
    request = Request(
        (*others, model),
        (target, TargetRef("z" + other_target, recipe.compiler_source)),
        recipe.options,
        version,
        tuple(labels.items()),
    )
    (wanted,) = (found for found in request.models if found.name == model.name)
    (chosen,) = (found for found in request.targets if found.name == "t")
    again = dataclasses.replace(
        recipe, model_digest=wanted.identity, target_digest=chosen.digest, options=request.options
    )
    assert recipe_key(again) == recipe_key(recipe)


def test_nothing_of_the_process_around_changes_a_key(tmp_path: Path) -> None:
    script = (
        "import json, sys; from kernelfarm.nouns import *; from kernelfarm import canonical\n"
        "recipe = canonical.decode(RecipeInputs, bytes.fromhex(sys.argv[1]))\n"
        "key = recipe_key(recipe); print(json.dumps([key, execution_key(key, Execution(None, 'a', 'r'))]))"
    )
    recipe = _recipe()
    expected = [recipe_key(recipe), execution_key(recipe_key(recipe), Execution(None, "a", "r"))]
    folder = tmp_path / "with a spáce"
    folder.mkdir()
    around: list[dict[str, Any]] = [
        {"env": {"PYTHONHASHSEED": "1"}},
        {"env": {"PYTHONHASHSEED": "2", "TZ": "Asia/Shanghai", "LC_ALL": "C", "HOME": str(folder)}},
        {"cwd": folder, "umask": 0o077},
    ]
    for change in around:
        keyword = {"cwd": tmp_path, **change, "env": {"PYTHONPATH": os.fspath(REPOSITORY), **change.get("env", {})}}
        argv = [sys.executable, "-c", script, canonical.encode(recipe).hex()]
        answer = subprocess.run(argv, capture_output=True, check=True, **keyword)
        assert json.loads(answer.stdout) == expected, change


def _model() -> Model:
    return Model("model", Digest("sha256:" + "1" * 64), 10)


def _recipe() -> RecipeInputs:
    digests = [Digest("sha256:" + digit * 64) for digit in "234"]
    return RecipeInputs(
        _model().identity, digests[0], Options.of({"x": (1, 3)}), digests[1], digests[2], (), "0.1.0", 1
    )
