"""Which runner compiles: what was asked for or nothing; else the best that is ready; for an action, what it names."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from farm import runners
from kernelfarm.errors import Code, FarmError, Status
from kernelfarm.nouns import Execution
from kernelfarm.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_an_image_a_bare_process_compiles_and_says_why(home: Home) -> None:
    choice = runners.choose(home, environ={})
    assert choice.runner.name == "process"
    assert not choice.runner.sealed
    assert list(choice.passed) == ["docker", "bubblewrap"]
    assert choice.describe() == (
        "runner process (not sealed off; no docker: it is not built; no bubblewrap: it is not built)"
    )


@pytest.mark.parametrize("name", ["docker", "bubblewrap", "bwrap"])
def test_a_sandbox_that_was_asked_for_is_never_replaced(home: Home, name: str) -> None:
    for ask in (lambda: runners.choose(home, name, {}), lambda: runners.choose(home, None, {"FARM_RUNNER": name})):
        with pytest.raises(FarmError) as caught:
            ask()
        assert (caught.value.code, caught.value.status) == (Code.IMAGE_MISSING, Status.ENVIRONMENT)


def test_the_option_outweighs_the_variable(home: Home) -> None:
    assert runners.choose(home, "process", {"FARM_RUNNER": "docker"}).runner.name == "process"


def test_an_unknown_runner_is_wrong_usage(home: Home) -> None:
    with pytest.raises(FarmError) as caught:
        runners.choose(home, None, {"FARM_RUNNER": "chroot"})
    assert caught.value.code is Code.USAGE


def test_an_action_is_compiled_by_the_runner_that_it_names(home: Home) -> None:
    found = runners.of(home, Execution(None, platform.machine(), "process"))
    assert found.name == "process"


@pytest.mark.parametrize(
    ("execution", "code"),
    [
        (Execution(None, "pdp11", "process"), Code.RUNNER_UNAVAILABLE),
        (Execution("sha256:" + "0" * 64, platform.machine(), "docker"), Code.IMAGE_MISSING),
        (Execution(None, platform.machine(), "chroot"), Code.USAGE),
    ],
)
def test_an_action_that_cannot_run_here_is_never_run_otherwise(home: Home, execution: Execution, code: Code) -> None:
    with pytest.raises(FarmError) as caught:
        runners.of(home, execution)
    assert caught.value.code is code


def test_a_farm_without_an_image_has_nothing_to_sweep(home: Home) -> None:
    assert runners.sweep(home) == 0
