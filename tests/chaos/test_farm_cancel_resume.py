"""Builds that are interrupted, cancelled, resumed and retried from the command line, while compiles are under way."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.ledger.ledger import Ledger, opened
from farm.ledger.rules import BuildState, Outcome, Reason
from kernelfarm.errors import Code
from kernelfarm.nouns import RunState
from signing import keys
from tests.support import farms, graphs
from tests.support.farms import Marks, alive, eventually
from tests.support.services import HANG_S
from tests.support.shells import Shell

V3, V4 = "x86-64-v3", "x86-64-v4"


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Shell]:
    home = farms.settings(tmp_path / "home").home
    keys.new(home)
    graphs.relu(tmp_path / "cls.onnx")
    with Shell(tmp_path, home.root).closing() as shell:
        yield shell


@pytest.fixture
def marks(farm: Shell) -> Marks:
    return farms.marks(farm.home)


@pytest.fixture
def ledger(farm: Shell) -> Iterator[Ledger]:
    with opened(farm.home / "ledger.sqlite3") as made:
        yield made


def begun(farm: Shell, marks: Marks, *targets: str, jobs: int = 1) -> subprocess.Popen[str]:
    """A build whose first compile is under way."""
    words = [word for target in targets for word in ("-t", target)]
    process = farm.begin("build", "cls.onnx", *words, "--jobs", str(jobs), "--json")
    eventually(lambda: len(marks.started()) == jobs)
    return process


def test_an_interrupted_build_says_how_to_go_on_and_goes_on(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a build of two cells, one being compiled and one waiting
    process = begun(farm, marks, V3, V4)
    # When somebody presses ctrl-C
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=HANG_S)
    # Then it ends as interrupted, says how to go on, and leaves nothing under way
    error = json.loads(out)["error"]
    assert process.returncode == 130
    assert (error["code"], error["next"]) == (Code.INTERRUPTED.number, "Go on with `farm build --resume b1`.")
    assert ledger.builds.get(1).state is BuildState.INTERRUPTED
    assert [row.status.state for row in ledger.runs.select([1, 2])] == [RunState.CANCELLED] * 2
    eventually(lambda: not alive(marks.started()[0]))
    # And from another folder that very command builds the same thing under the same number
    marks.go()
    with Shell(farm.home, farm.home).closing() as elsewhere:
        built = elsewhere.json("build", "--resume", "b1")
    assert (built["id"], built["status"], [cell["state"] for cell in built["cells"]]) == ("b1", 0, ["done", "done"])
    assert built["bundles"][0]["path"] == str(farm.folder / "bundles" / "cls")
    assert ledger.builds.get(1).state is BuildState.DONE


def test_a_resumed_build_takes_what_was_done_from_the_cache(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a build whose first cell is done when its process is killed
    marks.go()
    assert farm.json("build", "cls.onnx", "-t", V3)["status"] == 0
    (farm.home / "marks" / "go").unlink()
    process = farm.begin("build", "cls.onnx", "-t", V3, "-t", V4, "--json")
    eventually(lambda: len(marks.started()) == 2)
    process.kill()
    process.communicate()
    # When it is resumed
    marks.go()
    built = farm.json("build", "--resume", "b2")
    # Then that cell is cached, and only the other is compiled
    assert [(cell["target"], cell["cached"]) for cell in built["cells"]] == [(V3, True), (V4, False)]
    assert ledger.builds.get(2).state is BuildState.DONE


def test_a_cancelled_build_ends_within_seconds(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a build with a cell that compiles for ever and one that waits
    marks.misbehave("forever")
    process = begun(farm, marks, V3, V4)
    # When it is cancelled from another process
    cancelled = farm.json("cancel", "b1")
    # Then the waiting run ends at once, the other one when its worker sees it, and the build with them
    assert cancelled["builds"] == {"b1": "cancelled"}
    assert cancelled["runs"]["r2"] == {"state": "cancelled", "cancel_asked": True}
    out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert {error["code"] for error in json.loads(out)["errors"]} == {Code.INTERRUPTED.number}
    eventually(lambda: ledger.runs.get(1).status.state is RunState.CANCELLED)
    assert ledger.runs.get(1).status.reason is Reason.CANCEL_ASKED
    assert [item.outcome for item in ledger.runs.attempts(1)][-1] in (Outcome.CANCELLED, Outcome.INTERRUPTED)
    assert ledger.builds.get(1).state is BuildState.CANCELLED
    eventually(lambda: not any(alive(pid) for pid in marks.started()))


def test_a_cancelled_run_fails_its_cell_alone_and_is_retried(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    # Given a build with two cells, both being compiled
    process = begun(farm, marks, V3, V4, jobs=2)
    eventually(lambda: [row.status.state for row in ledger.runs.select([1, 2])] == [RunState.RUNNING] * 2)
    # When one run is cancelled and the other may end
    assert farm.json("cancel", "r1")["runs"]["r1"]["cancel_asked"]
    eventually(lambda: ledger.runs.get(1).status.state is RunState.CANCELLED)
    marks.go()
    out, _ = process.communicate(timeout=HANG_S)
    # Then the other cell is done
    cells = {cell["target"]: cell["state"] for cell in json.loads(out)["cells"]}
    assert sorted(cells.values()) == ["cancelled", "done"]
    # And a retry of the run compiles it, a retry of the build writes the bundle
    again = farm.json("retry", "r1")
    assert (again["state"], again["again"]) == ("done", "r3")
    built = farm.json("retry", "b1")
    assert (built["status"], [cell["cached"] for cell in built["cells"]]) == (0, [True, True])
    assert len(built["bundles"]) == 1


def test_a_build_that_is_under_way_is_not_resumed(farm: Shell, marks: Marks) -> None:
    begun(farm, marks, V3)
    status, _, err = farm.run("build", "--resume", "b1")
    assert status == 2
    assert "b1 is under way" in err


def test_cancel_of_what_has_ended_changes_nothing(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    marks.go()
    farm.run("build", "cls.onnx", "-t", V3)
    status, out, _ = farm.run("cancel", "b1", "r1")
    assert (status, out) == (0, "b1 done\nr1 done\n")
    assert ledger.builds.get(1).state is BuildState.DONE


def test_one_unknown_name_and_nothing_is_cancelled(farm: Shell, ledger: Ledger) -> None:
    number = farms.submit(ledger, farms.job(farms.ContentStore(farm.home / "store")))
    status, _, err = farm.run("cancel", f"r{number}", "r99")
    assert status == 2
    assert "there is no run r99" in err
    assert ledger.runs.get(number).status.state is RunState.QUEUED


def test_without_a_broker_nobody_can_do_without_waiting(farm: Shell) -> None:
    status, _, err = farm.run("build", "cls.onnx", "-t", V3, "--no-wait")
    assert status == 2
    assert "--no-wait needs a broker" in err


def test_the_log_of_another_process_is_followed_to_its_end(farm: Shell, marks: Marks) -> None:
    process = begun(farm, marks, V3)
    follower = farm.begin("logs", "-f", "r1")
    marks.go()
    process.communicate(timeout=HANG_S)
    out, err = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 0
    assert '"stage":"group"' in out
    assert err.splitlines()[-1] == "r1 done"


@pytest.mark.parametrize("words", [("check", "cls.onnx", "-t", V3), ("bench", "cls.onnx", "-t", V3)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_check_or_benchmark_that_is_broken_off_leaves_no_run_that_nobody_wants(
    farm: Shell, marks: Marks, ledger: Ledger, words: tuple[str, ...], number: signal.Signals
) -> None:
    process = farm.begin(*words)
    eventually(lambda: len(marks.started()) == 1)
    assert ledger.builds.wanted_elsewhere() == {1}
    process.send_signal(number)
    process.communicate(timeout=HANG_S)
    # Whoever looks next closes what a killed process left; the lease of its worker ends by itself
    eventually(lambda: farm.json("status")["builds"][0]["state"] == "interrupted")
    eventually(lambda: ledger.runs.live() == [] or bool(ledger.runs.takable(9, lease_s=2.5)))
    assert (ledger.runs.get(1).status.state, ledger.runs.get(1).status.reason) == (
        RunState.CANCELLED,
        Reason.UNWANTED,
    )
    code, _, err = farm.run("build", "--resume", "b1")
    assert (code, "a check, a benchmark or the retry" in err) == (2, True)


def test_a_check_leaves_a_run_that_a_build_wants(farm: Shell, marks: Marks, ledger: Ledger) -> None:
    build = begun(farm, marks, V3)
    check = farm.begin("check", "cls.onnx", "-t", V3)
    eventually(lambda: len(ledger.builds.wanting()) == 2)
    check.send_signal(signal.SIGINT)
    check.communicate(timeout=HANG_S)
    marks.go()
    out, err = build.communicate(timeout=HANG_S)
    assert (build.returncode, json.loads(out)["bundles"] != []) == (0, True), err
