"""A worker inside the test's process: what gets into the store, the ledger and the cache, and what does not."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from containers.process import ProcessRunner
from farm import cache, worker
from farm.actions import Job
from farm.heart import Heart
from farm.ledger.rules import Lease, Outcome, Reason
from farm.ledger.runs import Runs
from farm.logs import log_path
from farm.scheduler import Session
from kernelfarm import canonical, digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import Model, ModelFile, Options, RuleSet, RunState
from kernelfarm.store import ContentStore
from tests.support import farms
from tests.support.farms import Compiler
from toolchains import target


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Session]:
    with farms.session(tmp_path / "home") as made:
        yield made


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_is_compiled_and_its_payload_taken_in(farm: Session) -> None:
    wanted = farms.job(farm.store)
    number = farms.submit(farm.ledger, wanted)
    assert farms.worker(farm, Compiler()).work([number]) == 1
    row = farm.ledger.runs.get(number)
    assert (row.status.state, row.status.reason) == (RunState.DONE, Reason.COMPILED)
    found = cache.lookup(farm.ledger.runs, farm.store, wanted.action.execution_key)
    assert found is not None
    payload, _row = found
    assert (payload.model_name, payload.target_name) == ("cls", "x86-64-v3")
    kernels = next(entry for entry in payload.files if entry.name == "kernels.so")
    assert farm.store.get_bytes(kernels.digest) == b"kernels for x86-64-v3 "
    assert log_path(farm.settings.home.logs, number, 1).read_text() == "compiling\n"
    assert [item.max_rss_bytes for item in farm.ledger.runs.attempts(number)] == [123 << 20]
    assert left_in(farm.settings.home.cache) == []


def test_the_child_gets_exactly_the_request_the_model_and_its_data(farm: Session, tmp_path: Path) -> None:
    data = farm.store.put_bytes(b"weights")
    before = digest.of_bytes(b"the model with its author's name")
    model = Model("cls", farm.store.put_bytes(b"m"), 1, (ModelFile("data/w.bin", data, 7),), before)
    found = target.load("x86-64-v3")
    wanted = farms.job_of(model, found, Options.of({"x": (1, 3, 48, 192)}), farms.BOX)
    worker.prepare(tmp_path / "in", wanted, farm.store, cores=2)
    inside = {str(path.relative_to(tmp_path / "in")): path for path in (tmp_path / "in").rglob("*") if path.is_file()}
    assert sorted(inside) == ["data/w.bin", "model.onnx", "request.json"]
    assert inside["data/w.bin"].read_bytes() == b"weights"
    assert canonical.loads(inside["request.json"].read_bytes(), strict=True) == {
        "schema": "compile-request/1",
        "model": "model.onnx",
        "model_name": "cls",
        "shapes": {"x": [1, 3, 48, 192]},
        "target": found.to_json(),
        "jobs": 2,
        "rules": None,
    }


def test_the_child_gets_the_rules_of_the_user(farm: Session, tmp_path: Path) -> None:
    rules = RuleSet(farm.store.put_bytes(b"rules"), 5)
    wanted = farms.job(farm.store, rules=rules)
    worker.prepare(tmp_path / "in", wanted, farm.store, cores=1)
    assert (tmp_path / "in" / "rules.json").read_bytes() == b"rules"
    request = canonical.loads((tmp_path / "in" / "request.json").read_bytes())
    assert request["rules"] == "rules.json"
    assert wanted.inputs == ((wanted.model.digest, wanted.model.size), (rules.digest, 5))


@pytest.mark.parametrize("name", ["model.onnx", "rules.json", "request.json", "objects/x"])
def test_external_data_cannot_take_the_place_of_the_request(farm: Session, tmp_path: Path, name: str) -> None:
    data = farm.store.put_bytes(b"evil")
    model = Model("cls", farm.store.put_bytes(b"m"), 1, (ModelFile(name, data, 4),))
    wanted = farms.job_of(model, target.load("x86-64-v3"), Options(), farms.BOX)
    with pytest.raises(FarmError) as caught:
        worker.prepare(tmp_path / "in", wanted, farm.store, cores=1)
    assert caught.value.code is Code.EXTERNAL_OUTSIDE


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.MODEL_INVALID, Reason.COMPILE_ERROR),
        (Code.CHILD_TIMEOUT, Reason.TOTAL_TIMEOUT),
        (Code.CHILD_SILENT, Reason.SILENCE_TIMEOUT),
        (Code.TOOL_TIMEOUT, Reason.LIMIT_EXCEEDED),
        (Code.CHILD_MEMORY, Reason.LIMIT_EXCEEDED),
        (Code.CHILD_KILLED, Reason.CHILD_DIED),
        (Code.RESULT_REFUSED, Reason.RESULT_REFUSED),
        (Code.DISK_FULL, Reason.ENVIRONMENT),
        (Code.STORE_CORRUPT, Reason.ENVIRONMENT),
    ],
)
def test_a_failed_compile_is_recorded_with_its_reason_and_not_retried(
    farm: Session, code: Code, reason: Reason
) -> None:
    compiler = Compiler(error=FarmError(code, "no"))
    number = farms.submit(farm.ledger, farms.job(farm.store))
    farms.worker(farm, compiler).work([number])
    row = farm.ledger.runs.get(number)
    failure = row.failure()
    assert failure is not None
    assert (row.status.state, row.status.reason, failure.code) == (RunState.FAILED, reason, code)
    assert len(compiler.calls) == 1
    assert left_in(farm.settings.home.cache) == []


def test_a_refused_result_leaves_no_byte_in_the_store_but_its_log(farm: Session) -> None:
    wanted = farms.job(farm.store)
    before = list(farm.store.digests())
    number = farms.submit(farm.ledger, wanted)
    farms.worker(farm, Compiler(spoil=lambda out: (out / "payload/kernels.so").write_bytes(b"evil") and None)).work(
        [number]
    )
    assert farm.ledger.runs.get(number).status.reason is Reason.RESULT_REFUSED
    assert set(farm.store.digests()) - set(before) == {digest.of_bytes(b"compiling\n")}
    assert farm.ledger.runs.cached(wanted.action.execution_key) is None


@pytest.mark.parametrize(
    "error", [None, FarmError(Code.MODEL_INVALID, "no"), FarmError(Code.RUNNER_LOST, "gone"), KeyboardInterrupt()]
)
def test_the_log_of_an_attempt_is_in_the_store_however_it_ended(farm: Session, error: BaseException | None) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    with contextlib.suppress(KeyboardInterrupt):
        farms.worker(farm, Compiler(error=error)).work([number])
    [attempt] = farm.ledger.runs.attempts(number)
    assert attempt.outcome is not None
    assert attempt.log == digest.of_bytes(b"compiling\n")
    assert farm.store.get_bytes(digest.parse(attempt.log)) == b"compiling\n"


def test_the_log_is_kept_before_the_run_counts_as_done(farm: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    states: list[RunState] = []
    keep = Runs.keep_log

    def look(runs: Runs, lease: Lease, kept: str) -> None:
        states.append(runs.get(number).status.state)
        keep(runs, lease, kept)

    monkeypatch.setattr(Runs, "keep_log", look)
    farms.worker(farm, Compiler()).work([number])
    assert states == [RunState.RUNNING]  # who waits for the end may then stop the worker


def test_the_next_attempt_keeps_the_log_of_one_whose_worker_was_killed(farm: Session) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    assert farm.ledger.runs.take("killed", lease_s=0.0, among=[number]) is not None
    path = log_path(farm.settings.home.logs, number, 1)
    path.parent.mkdir()
    path.write_text("half a l")
    farms.worker(farm, Compiler()).work([number])
    kept = [farm.store.get_bytes(digest.parse(each.log or "")) for each in farm.ledger.runs.attempts(number)]
    assert kept == [b"half a l", b"compiling\n"]


def test_a_log_that_cannot_be_kept_stops_no_run(farm: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise FarmError(Code.DISK_FULL, "no space")

    monkeypatch.setattr(Runs, "keep_log", full)
    number = farms.submit(farm.ledger, farms.job(farm.store))
    farms.worker(farm, Compiler()).work([number])
    assert farm.ledger.runs.get(number).status.state is RunState.DONE


def test_one_failed_run_does_not_stop_the_next(farm: Session) -> None:
    numbers = [farms.submit(farm.ledger, farms.job(farm.store, on=name)) for name in ("x86-64-v3", "x86-64-v4")]
    failing = Compiler(error=FarmError(Code.MODEL_INVALID, "no"))
    assert farms.worker(farm, failing).work(numbers) == 2


def test_a_fault_of_the_worker_itself_fails_the_run_and_goes_through(farm: Session) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    with pytest.raises(ZeroDivisionError):
        farms.worker(farm, Compiler(error=ZeroDivisionError("oops"))).work([number])
    row = farm.ledger.runs.get(number)
    failure = row.failure()
    assert failure is not None
    assert (row.status.reason, failure.code) == (Reason.FAULT, Code.INTERNAL)
    assert "ZeroDivisionError" in failure.why


def test_an_interrupted_worker_gives_the_run_back_and_leaves_nothing(farm: Session) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    with pytest.raises(KeyboardInterrupt):
        farms.worker(farm, Compiler(error=KeyboardInterrupt())).work([number])
    row = farm.ledger.runs.get(number)
    assert (row.status.state, row.status.reason, row.status.losses) == (RunState.QUEUED, Reason.INTERRUPTED, 0)
    assert left_in(farm.settings.home.cache) == []


def test_the_result_of_a_lost_lease_is_dropped(farm: Session) -> None:
    # Given a compile during which the lease runs out and another worker takes and finishes the run
    wanted = farms.job(farm.store)
    number = farms.submit(farm.ledger, wanted)

    def meanwhile(out: Path) -> None:
        del out
        taken = farm.ledger.runs.take("w2", lease_s=60.0, among=[number])
        assert taken is not None
        farm.ledger.runs.finish(taken[0], '{"by":"w2"}')

    slow = farms.session(farm.settings.home.root, lease_s=0.000_001)
    # When the first one comes with its own result
    with slow as sleepy:
        farms.worker(sleepy, Compiler(spoil=meanwhile)).work([number])
    # Then the second one's stays
    cached = farm.ledger.runs.cached(wanted.action.execution_key)
    assert cached is not None
    assert cached.payload == '{"by":"w2"}'
    outcomes = [(item.worker, item.outcome) for item in farm.ledger.runs.attempts(number)]
    assert outcomes == [("w1", Outcome.LEASE_EXPIRED), ("w2", Outcome.DONE)]


def test_the_heart_tells_when_the_lease_is_lost(farm: Session) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    taken = farm.ledger.runs.take("w1", lease_s=0.001, among=[number])
    assert taken is not None
    lost = threading.Event()
    quick = farms.settings(farm.settings.home.root, lease_s=0.04)
    assert farm.ledger.runs.take("w2", lease_s=60.0, among=[number]) is not None
    with Heart(farm.ledger.runs, taken[0], quick, lost.set):
        assert lost.wait(5.0)


def test_the_heart_keeps_the_lease_and_carries_progress(farm: Session) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    quick = farms.settings(farm.settings.home.root, lease_s=0.2)
    taken = farm.ledger.runs.take("w1", lease_s=0.2, among=[number])
    assert taken is not None
    begun = farm.ledger.runs.now()
    with Heart(farm.ledger.runs, taken[0], quick, lambda: None) as heart:
        heart.tell(farms.Progress("group", 3, 4, "g"))
        while farm.ledger.runs.now() < begun + 0.5:
            assert farm.ledger.runs.take("w2", lease_s=1.0, among=[number]) is None
            threading.Event().wait(0.05)
    row = farm.ledger.runs.get(number)
    assert (row.stage, row.done, row.total) == ("group", 3, 4)


def test_a_second_compile_with_other_bytes_fails_and_shows_both(farm: Session) -> None:
    wanted = farms.job(farm.store)
    farms.worker(farm, Compiler()).work([farms.submit(farm.ledger, wanted)])
    again = farms.submit(farm.ledger, wanted)
    farms.worker(farm, Compiler(salt="other")).work([again])
    failure = farm.ledger.runs.get(again).failure()
    assert failure is not None
    assert failure.code is Code.PAYLOAD_DIFFERS
    known = {item["name"]: item["digest"] for item in failure.detail["known"]["files"]}
    assert known["kernels.so"] == digest.of_bytes(b"kernels for x86-64-v3 ")


def test_when_the_sources_change_during_a_compile_its_result_is_dropped(farm: Session) -> None:
    answers = iter([None, FarmError(Code.SOURCES_CHANGED, "changed")])

    def recheck(job: Job) -> None:
        del job
        if (error := next(answers)) is not None:
            raise error

    wanted = farms.job(farm.store)
    number = farms.submit(farm.ledger, wanted)
    replace(farms.worker(farm, Compiler()), recheck=recheck).work([number])
    assert farm.ledger.runs.get(number).status.reason is Reason.ENVIRONMENT
    assert farm.ledger.runs.cached(wanted.action.execution_key) is None


@pytest.mark.parametrize("code", [Code.RUNNER_LOST, Code.RUNNER_UNAVAILABLE, Code.REGISTRY_UNREACHABLE])
def test_a_run_whose_ground_was_lost_is_queued_again(farm: Session, code: Code) -> None:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    assert farms.worker(farm, Compiler(error=FarmError(code, "gone"))).work([number]) == 1
    status = farm.ledger.runs.get(number).status
    assert (status.state, status.reason, status.losses) == (RunState.QUEUED, Reason.LOST, 1)
    assert [item.outcome for item in farm.ledger.runs.attempts(number)] == [Outcome.LOST]


@pytest.mark.parametrize("code", [*sorted(worker.LOST, key=str), Code.PAYLOAD_DIFFERS, Code.LEASE_LOST])
def test_a_compile_that_claims_a_loss_is_not_tried_again(farm: Session, code: Code) -> None:
    # Given a compile that reports what only others could find out
    document = json.dumps(FarmError(code, "believe me").to_json())
    hostile = f"import sys; open('out/error.json', 'w').write({document!r}); sys.exit(1)"
    number = farms.submit(farm.ledger, farms.job(farm.store))
    # When it is compiled
    farms.worker(farm, ProcessRunner((sys.executable, "-c", hostile))).work([number])
    # Then the run has failed, with one start
    row = farm.ledger.runs.get(number)
    failure = row.failure()
    assert failure is not None
    assert (row.status.state, failure.code) == (RunState.FAILED, Code.CHILD_CRASHED)
    assert [item.outcome for item in farm.ledger.runs.attempts(number)] == [Outcome.FAILED]


def test_a_run_ends_whatever_its_compile_ends_with(farm: Session) -> None:
    """PAYLOAD_DIFFERS is recorded where the ledger finds it, and must not be taken for recorded elsewhere."""
    number = farms.submit(farm.ledger, farms.job(farm.store))
    farms.worker(farm, Compiler(error=FarmError(Code.PAYLOAD_DIFFERS, "x"))).work([number])
    assert farm.ledger.runs.get(number).status.state is RunState.FAILED


def test_a_cache_entry_whose_bytes_are_gone_is_a_miss(farm: Session) -> None:
    wanted = farms.job(farm.store)
    farms.worker(farm, Compiler()).work([farms.submit(farm.ledger, wanted)])
    blob(farm.settings.home.store, digest.of_bytes(b"library")).unlink()
    assert cache.lookup(farm.ledger.runs, farm.store, wanted.action.execution_key) is None


def test_a_damaged_byte_in_the_store_is_named_and_not_healed(farm: Session) -> None:
    wanted = farms.job(farm.store)
    farms.worker(farm, Compiler()).work([farms.submit(farm.ledger, wanted)])
    path = blob(farm.settings.home.store, digest.of_bytes(b"library"))
    path.chmod(0o600)
    path.write_bytes(b"Library")
    for _ in range(2):
        with pytest.raises(FarmError) as caught:
            cache.lookup(farm.ledger.runs, farm.store, wanted.action.execution_key)
        assert (caught.value.code, caught.value.detail["file"]) == (Code.STORE_CORRUPT, str(path))
    # and compiling again, without the cache, mends it
    farms.worker(farm, Compiler()).work([farms.submit(farm.ledger, wanted)])
    assert cache.lookup(farm.ledger.runs, farm.store, wanted.action.execution_key) is not None


def blob(store: Path, wanted: digest.Digest) -> Path:
    text = digest.hex_of(wanted)
    return store / "sha256" / text[:2] / text


def test_a_payload_is_unpacked_whole(farm: Session, tmp_path: Path) -> None:
    wanted = farms.job(farm.store)
    farms.worker(farm, Compiler()).work([farms.submit(farm.ledger, wanted)])
    found = cache.lookup(farm.ledger.runs, ContentStore(farm.settings.home.store), wanted.action.execution_key)
    assert found is not None
    folder = cache.materialise(found[0], farm.store, tmp_path / "unpacked")
    assert worker.payload_digest(folder) == found[0].digest
