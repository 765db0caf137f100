"""The nouns: golden keys, what they refuse, the life of a run."""

from __future__ import annotations

import dataclasses
import re

import pytest

from kernelfarm import canonical, nouns
from kernelfarm.digest import Digest, of_bytes
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import (
    Action,
    Bundle,
    Comparison,
    Difference,
    Execution,
    Model,
    ModelFile,
    Options,
    Payload,
    PayloadFile,
    RecipeInputs,
    Request,
    RuleSet,
    Run,
    RunState,
    TargetRef,
    ToolIdentity,
)

D = [of_bytes(bytes([number])) for number in range(8)]

# A fixture lock: as long as these lines stand, every key below must stay, or a change is meant and reviewed.
MODEL = Model("cls", D[0], 1000, (ModelFile("data/weights.bin", D[1], 4096),))
TARGET = TargetRef("x86-64-v4", D[2])
RECIPE = RecipeInputs(
    model_digest=MODEL.identity,
    target_digest=TARGET.digest,
    options=Options.of({"x": (1, 3, 48, 192)}),
    compiler_source=D[3],
    runtime_source=D[4],
    tools=(ToolIdentity("ziglang", "0.17.0", D[5]), ToolIdentity("numpy", "2.4.6", D[6])),
    ir_version="0.1.0",
    abi_version=1,
    tuning_db=None,
)
EXECUTION = Execution(image=None, builder_arch="x86_64", runner="process")
WITH_RULES = Options(rules=RuleSet(D[6], 12))
ACTION = Action.of(MODEL, TARGET, RECIPE, EXECUTION)
PAYLOAD = Payload(D[1], "cls", "x86-64-v4", (PayloadFile("kernels.so", D[2], 10), PayloadFile("config.json", D[3], 2)))


def test_golden_keys() -> None:
    assert MODEL.identity == "sha256:504e44138fe45fdef703000e102b37a8d598aaacddeea92d0f2c801579842500"
    recipe = nouns.recipe_key(RECIPE)
    assert recipe == "sha256:99fc09ac3080d4881f50f08531431b3c609fad3d5854ee8e8774bcce6b12454d"
    assert (
        nouns.execution_key(nouns.recipe_key(RECIPE), EXECUTION)
        == "sha256:9f0c76c4a393a1c6d0ef5c52ab77e278a1f021c0894c66fdd2a066a1e888c7d4"
    )


def test_the_bytes_under_the_recipe_key() -> None:
    assert canonical.encode(RECIPE).decode() == (
        '{"abi_version":1,'
        f'"compiler_source":"{D[3]}",'
        '"ir_version":"0.1.0",'
        f'"model_digest":"{MODEL.identity}",'
        '"options":{"schema":"options/1","shapes":[["x",[1,3,48,192]]]},'
        f'"runtime_source":"{D[4]}",'
        '"sbom_source":null,'
        '"schema":"recipe/1",'
        f'"target_digest":"{D[2]}",'
        f'"tools":[{{"digest":"{D[6]}","name":"numpy","version":"2.4.6"}},'
        f'{{"digest":"{D[5]}","name":"ziglang","version":"0.17.0"}}],'
        '"tuning_db":null}'
    )


@pytest.mark.parametrize(
    "noun",
    [
        MODEL,
        RECIPE.options,
        WITH_RULES,
        Request((MODEL,), (TARGET,), RECIPE.options, "1.2.0", (("team", "media"),)),
        RECIPE,
        dataclasses.replace(RECIPE, tuning_db=D[7]),
        Execution(D[7], "x86_64", "docker"),
        ACTION,
        Run("1", ACTION.execution_key),
        Run("1", ACTION.execution_key, RunState.DONE, 1, 1, "", D[1]),
        PAYLOAD,
        Comparison(D[0], D[1], D[2], EXECUTION, ("umask", "TZ"), (Difference("kernels.so", D[3], None, 17),)),
        Bundle("cls", "1.0.0", "0.1.0", 1, D[0], (PAYLOAD,)),
    ],
    ids=lambda noun: type(noun).__name__,
)
def test_every_noun_reads_back_from_its_canonical_bytes(noun: object) -> None:
    data = canonical.encode(noun)
    assert canonical.decode(type(noun), data) == noun
    assert re.fullmatch(r"[a-z-]+/[12]", canonical.loads(data)["schema"])


def test_nouns_are_frozen_and_slotted() -> None:
    kinds = [kind for kind in vars(nouns).values() if dataclasses.is_dataclass(kind)]
    assert len(kinds) == 16
    assert [kind for kind in kinds if not kind.__dataclass_params__.frozen or "__slots__" not in vars(kind)] == []


def test_order_that_means_nothing_does_not_reach_the_bytes() -> None:
    assert dataclasses.replace(RECIPE, tools=tuple(reversed(RECIPE.tools))) == RECIPE
    assert Options.of({"b": (1,), "a": (2,)}) == Options.of({"a": (2,), "b": (1,)})


def test_bytes_in_another_order_are_not_canonical() -> None:
    data = b'{"schema":"options/1","shapes":[["b",[1]],["a",[2]]]}'
    with pytest.raises(FarmError) as caught:
        canonical.decode(Options, data)
    assert caught.value.code is Code.JSON_NOT_CANONICAL


def test_options_without_rules_do_not_speak_of_them() -> None:
    assert "rules" not in canonical.to_json(Options())
    assert canonical.to_json(WITH_RULES)["rules"] == {"digest": D[6], "size": 12}
    with pytest.raises(FarmError) as caught:
        canonical.decode(Options, b'{"rules":null,"schema":"options/1","shapes":[]}')
    assert caught.value.code is Code.JSON_NOT_CANONICAL


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", ".hidden", "a\0", "a b", "é", "a" * 129, "a\n"])
def test_a_payload_file_has_a_plain_name(name: str) -> None:
    with pytest.raises(FarmError) as caught:
        PayloadFile(name, D[0], 1)
    assert caught.value.code is Code.NAME_INVALID


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../w", "a/../../w", "a//b", "./a", "a\0"])
def test_external_data_lies_inside_the_folder_of_the_model(name: str) -> None:
    with pytest.raises(FarmError) as caught:
        ModelFile(name, D[0], 1)
    assert caught.value.code is Code.EXTERNAL_OUTSIDE


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(FarmError) as caught:
        Options((("x", (1,)), ("x", (2,))))
    assert (caught.value.code, caught.value.what) == (Code.SCHEMA_MISMATCH, "shapes holds 'x' twice")


def test_a_dimension_is_positive() -> None:
    with pytest.raises(FarmError) as caught:
        Options.of({"x": (1, 0)})
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize(
    "change", [{"recipe_key": D[0]}, {"execution_key": D[0]}, {"execution": Execution(None, "a", "b")}]
)
def test_an_action_with_a_key_that_is_not_its_own_is_refused(change: dict[str, Digest]) -> None:
    with pytest.raises(FarmError) as caught:
        dataclasses.replace(ACTION, **change)
    assert caught.value.code is Code.SCHEMA_MISMATCH


def test_an_action_takes_no_recipe_of_another_model() -> None:
    with pytest.raises(FarmError) as caught:
        Action.of(dataclasses.replace(MODEL, name="other"), TARGET, RECIPE, EXECUTION)
    assert caught.value.code is Code.INTERNAL


def test_a_comparison_of_equal_payloads_is_the_same_and_has_no_difference() -> None:
    assert Comparison(D[0], D[1], D[1], EXECUTION).same
    assert not Comparison(D[0], D[1], D[2], EXECUTION).same
    with pytest.raises(FarmError):
        Comparison(D[0], D[1], D[1], EXECUTION, (), (Difference("a", D[0], D[1], 0),))


def test_a_run_is_taken_lost_taken_again_and_done() -> None:
    run = Run("7", D[0])
    taken = run.move(RunState.RUNNING)
    again = taken.move(RunState.RUNNING, reason="lease expired")
    done = again.move(RunState.DONE, payload=D[1])
    assert [(step.state.value, step.attempt, step.fence) for step in (run, taken, again, done)] == [
        ("queued", 0, 0),
        ("running", 1, 1),
        ("running", 2, 2),
        ("done", 2, 2),
    ]
    assert done.payload == D[1]


LEGAL = {
    ("queued", "running"),
    ("queued", "failed"),
    ("queued", "cancelled"),
    ("running", "running"),
    ("running", "queued"),
    ("running", "done"),
    ("running", "failed"),
    ("running", "cancelled"),
}


@pytest.mark.parametrize("before", list(RunState))
@pytest.mark.parametrize("after", list(RunState))
def test_a_run_moves_along_the_legal_edges_only(before: RunState, after: RunState) -> None:
    run = Run("7", D[0], before, payload=D[1] if before is RunState.DONE else None)
    payload = D[2] if after is RunState.DONE else None
    if (before.value, after.value) in LEGAL:
        assert run.move(after, payload=payload).state is after
    else:
        with pytest.raises(FarmError) as caught:
            run.move(after, payload=payload)
        assert caught.value.code is Code.STATE_ILLEGAL


def test_the_final_states() -> None:
    assert [state.value for state in RunState if state.final] == ["done", "failed", "cancelled"]


def test_a_payload_belongs_to_a_done_run() -> None:
    with pytest.raises(FarmError):
        Run("7", D[0]).move(RunState.RUNNING).move(RunState.DONE)
    with pytest.raises(FarmError):
        Run("7", D[0]).move(RunState.RUNNING).move(RunState.FAILED, payload=D[0])
