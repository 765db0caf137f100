"""One `farm build` from files to signed bundles, with real worker processes, a real signer and a stand-in compiler."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from farm import alive, apart, build, cache, gc, scheduler, subject
from farm.build import Built, Order
from farm.cli import build as command
from farm.ledger.builds import CellRow
from farm.ledger.rules import BuildState, Reason
from farm.licences import gate
from farm.scheduler import Cell, Session
from kernelfarm import oci_bundle
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Options, RunState
from signing import client, keys
from tests.support import farms, graphs
from tests.support.farms import Marks

TARGETS = ("x86-64-v3", "x86-64-v4")


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("FARM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(build, "toolbox", lambda *_: farms.BOX)
    with farms.session(tmp_path / "home") as made:
        keys.new(made.settings.home)
        yield made


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    made = farms.marks(tmp_path / "home")
    made.go()
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "cls.onnx"
    graphs.relu(path)
    return path


def order(*models: Path, targets: Sequence[str] = TARGETS, version: str | None = None) -> Order:
    return Order(models, tuple(targets), Options.of({"x": (1, 3)}), version=version)


def states(built: Built) -> list[tuple[str, str, str]]:
    return [(cell.model, cell.target, cell.state.value) for cell in built.cells]


def test_a_bundle_with_a_payload_per_target(farm: Session, marks: Marks, model: Path, tmp_path: Path) -> None:
    built = build.build(farm, order(model, version="1.2.0"), tmp_path / "out")
    assert states(built) == [("cls", "x86-64-v3", "done"), ("cls", "x86-64-v4", "done")]
    assert (built.status, built.errors) == (0, ())
    view = oci_bundle.read(tmp_path / "out/cls").require()
    assert view.digest == built.bundles[0].digest
    payloads = {cell.target: cell.payload.digest for cell in built.cells if cell.payload is not None}
    assert dict(built.bundles[0].payloads) == payloads
    assert farm.ledger.builds.get(1).state is BuildState.DONE
    assert len(marks.started()) == 2


def test_again_everything_is_cached_and_the_bundle_stays(
    farm: Session, marks: Marks, model: Path, tmp_path: Path
) -> None:
    first = build.build(farm, order(model), tmp_path / "out")
    second = build.build(farm, order(model), tmp_path / "out")
    assert all(cell.cached is not None for cell in second.cells)
    assert [bundle.reused for bundle in (*first.bundles, *second.bundles)] == [False, True]
    assert second.bundles[0].digest == first.bundles[0].digest
    assert len(marks.started()) == 2


def test_a_cell_that_fails_leaves_the_others_alone(farm: Session, marks: Marks, model: Path, tmp_path: Path) -> None:
    marks.misbehave("refuse x86-64-v4")
    built = build.build(farm, order(model), tmp_path / "out")
    assert states(built) == [("cls", "x86-64-v3", "done"), ("cls", "x86-64-v4", "failed")]
    assert (built.status, [error.code for error in built.errors]) == (1, [Code.MODEL_INVALID])
    assert not (tmp_path / "out").exists()
    assert farm.ledger.builds.get(1).state is BuildState.FAILED
    assert command.replay(order(model), built.cells[1]) == (
        f"farm build {model} -t x86-64-v4 --shape x=1x3 --jobs 1 --no-cache"
    )


def test_a_model_that_is_missing_leaves_the_others_alone(
    farm: Session, marks: Marks, model: Path, tmp_path: Path
) -> None:
    built = build.build(farm, order(tmp_path / "absent.onnx", model), tmp_path / "out")
    assert states(built) == [
        ("absent", "x86-64-v3", "failed"),
        ("absent", "x86-64-v4", "failed"),
        ("cls", "x86-64-v3", "done"),
        ("cls", "x86-64-v4", "done"),
    ]
    assert [error.code for error in built.errors] == [Code.MODEL_MISSING]
    assert [bundle.path.name for bundle in built.bundles] == ["cls"]
    assert len(marks.started()) == 2


@pytest.mark.usefixtures("marks")
def test_another_name_of_the_model_is_another_payload(farm: Session, model: Path, tmp_path: Path) -> None:
    build.build(farm, order(model, targets=TARGETS[:1]), tmp_path / "out")
    renamed = Order((model,), TARGETS[:1], Options.of({"x": (1, 3)}), name="other")
    built = build.build(farm, renamed, tmp_path / "out")
    assert [cell.cached for cell in built.cells] == [None]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cls", "other"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"targets": ["x86-64-v5"]}, Code.TARGET_UNKNOWN),
        ({"version": "one"}, Code.VERSION_INVALID),
    ],
    ids=["target", "version"],
)
def test_what_makes_the_whole_order_impossible_is_found_before_anything_runs(
    farm: Session, model: Path, tmp_path: Path, change: dict[str, object], code: Code
) -> None:
    with pytest.raises(FarmError) as caught:
        build.build(farm, order(model, **change), tmp_path / "out")  # type: ignore[arg-type]
    assert caught.value.code is code
    assert farm.ledger.builds.recent() == []


def test_without_a_key_nothing_is_compiled(farm: Session, marks: Marks, model: Path, tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        build.build(farm, order(model), tmp_path / "out", key="absent")
    assert caught.value.code is Code.KEY_MISSING
    assert marks.started() == []


@pytest.mark.usefixtures("marks")
def test_the_signer_is_asked_when_all_licences_are_judged(
    farm: Session, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan may take an hour, and a signer that nobody asks for minutes ends."""
    done: list[str] = []
    judge, open_signer = gate.verdict, client.open_signer
    monkeypatch.setattr(gate, "verdict", lambda *args: (judge(*args), done.append("judged"))[0])
    monkeypatch.setattr(client, "open_signer", lambda *args: (done.append("signer"), open_signer(*args))[1])

    built = build.build(farm, order(model), tmp_path / "out")

    assert (built.errors, done) == ((), ["judged", "judged", "signer"])


def test_an_interrupted_build_lets_go_of_its_runs(farm: Session, marks: Marks, model: Path, tmp_path: Path) -> None:
    def interrupt(cells: Sequence[Cell]) -> None:
        del cells
        raise KeyboardInterrupt

    with pytest.raises(FarmError) as caught:
        build.build(farm, order(model), tmp_path / "out", on_change=interrupt)
    assert caught.value.code is Code.INTERRUPTED
    assert "farm build --resume b1" in caught.value.next_step
    assert farm.ledger.builds.get(1).state is BuildState.INTERRUPTED
    states = [(row.status.state, row.status.reason) for row in farm.ledger.runs.select([1, 2])]
    assert states == [(RunState.CANCELLED, Reason.UNWANTED)] * 2
    assert marks.started() == []
    assert not (tmp_path / "out").exists()


def test_a_build_whose_process_is_gone_is_closed_by_the_next_one(
    farm: Session, marks: Marks, model: Path, tmp_path: Path
) -> None:
    # Given a build that was killed while its run was queued, and one that is alive
    dead = farm.ledger.builds.open({})
    number = farms.submit(farm.ledger, farms.job(farm.store, data=b"other"))
    farm.ledger.builds.add_cells([CellRow(dead, 0, "m", "x86-64-v3", "e", number, False, None)])
    living = farm.ledger.builds.open({})
    with alive.holding(farm.settings.home.run, living):
        # When another one runs
        build.build(farm, order(model, targets=TARGETS[:1]), tmp_path / "out")
        # Then the first is closed, and the second is left alone
        assert farm.ledger.builds.get(dead).state is BuildState.INTERRUPTED
        assert farm.ledger.builds.get(living).state is BuildState.RUNNING
    assert farm.ledger.runs.get(number).status.state is RunState.CANCELLED
    assert list(farm.settings.home.run.glob("build-*")) == []
    assert len(marks.started()) == 1


@pytest.mark.usefixtures("marks")
def test_a_run_that_another_build_waits_for_is_not_cancelled(farm: Session, model: Path, tmp_path: Path) -> None:
    def join_and_interrupt(cells: Sequence[Cell]) -> None:
        other = farm.ledger.builds.open({})
        farm.ledger.builds.add_cells(apart.rows_of(other, cells[:1]))
        raise KeyboardInterrupt

    with pytest.raises(FarmError):
        build.build(farm, order(model), tmp_path / "out", on_change=join_and_interrupt)
    found = [row.status.state for row in farm.ledger.runs.select([1, 2])]
    assert found == [RunState.QUEUED, RunState.CANCELLED]


def test_the_json_document_and_the_table_of_a_build(farm: Session, marks: Marks, model: Path, tmp_path: Path) -> None:
    marks.misbehave("refuse x86-64-v4")
    built = build.build(farm, order(model), tmp_path / "out")
    document = json.loads(json.dumps(command.document(built)))
    assert (document["schema"], document["id"], document["status"]) == ("build/1", "b1", 1)
    done, failed = document["cells"]
    assert done["payload"] == built.cells[0].payload.digest  # type: ignore[union-attr]
    assert (done["state"], done["cached"], done["run"], done["error"]) == ("done", False, "r1", None)
    assert (failed["state"], failed["payload"], failed["run"]) == ("failed", None, "r2")
    assert failed["error"]["code"] == Code.MODEL_INVALID.number
    lines = command.result_table(built).splitlines()
    assert lines[0].split() == ["MODEL", "TARGET", "SIZE", "COMPILED", "PAYLOAD"]
    assert lines[1].split()[:2] == ["cls", "x86-64-v3"]
    assert lines[1].split()[-1] == done["payload"].removeprefix("sha256:")[:12]
    assert lines[2].split() == ["cls", "x86-64-v4", "-", "failed", "-"]


def sweeping(farm: Session, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[int]:
    """Before the function is called for the first time `farm gc` forgets every cache entry and removes all it can."""
    calls: list[int] = []
    original = getattr(owner, name)

    def swept(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            assert gc.collect(farm, gc.Rules(grace_s=-60.0, cache_s=-60.0)).blobs > 0
        return original(*args, **more)

    monkeypatch.setattr(owner, name, swept)
    return calls


@pytest.mark.usefixtures("marks")
def test_what_gc_removes_under_a_build_is_compiled_again(
    farm: Session, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build.build(farm, order(model), tmp_path / "first")
    calls = sweeping(farm, monkeypatch, build, "_write_bundles")
    again = build.build(farm, order(model), tmp_path / "again")
    assert (again.errors, len(calls)) == ((), 2)
    assert {cell.cached for cell in again.cells} == {None}
    assert again.bundles[0].payloads == first.bundles[0].payloads
    assert farm.ledger.builds.get(again.number).state is BuildState.DONE


@pytest.mark.usefixtures("marks")
def test_what_gc_removes_under_a_check_is_compiled_again(
    farm: Session, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    @contextmanager
    def session(_settings: object) -> Iterator[Session]:
        yield farm

    monkeypatch.setattr(scheduler, "session", session)
    monkeypatch.setenv("FARM_RUNNER", "process")
    with subject.compiled(farm.settings, model, TARGETS[0], Options()) as one:
        first = one.payload
    calls = sweeping(farm, monkeypatch, cache, "materialise")
    with subject.compiled(farm.settings, model, TARGETS[0], Options()) as one:
        assert (one.payload, one.cached, len(calls)) == (first, False, 2)
    assert farm.ledger.builds.wanting() == []
