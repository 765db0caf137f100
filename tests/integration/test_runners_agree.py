"""One model through all three runners, with the real image: the same payloads, each with its own provenance."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from farm.ledger.ledger import opened
from farm.ledger.rules import Outcome
from kernelfarm.errors import Code
from kernelfarm.paths import Home
from tests.support import farms, graphs
from tests.support.docker_engine import DockerEngine
from tests.support.pinned_image import lend
from tests.support.product import Product

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

TARGETS = ("x86-64-v3", "riscv64")
SHAPE = ("--shape", "1x3x8x8")


@pytest.fixture
def farm(tmp_path: Path, pinned_image: Home, docker_engine: DockerEngine) -> Product:
    """A farm with the image and an engine."""
    lend(pinned_image, tmp_path / "home")
    graphs.tiny(tmp_path / "tiny.onnx", side="side")
    return Product(tmp_path / "home", {"DOCKER_HOST": docker_engine.address}).with_key()


def build(farm: Product, folder: Path, runner: str) -> Any:
    words = [word for target in TARGETS for word in ("-t", target)]
    out = folder / f"out-{runner}"
    return farm.must("build", folder / "tiny.onnx", *words, *SHAPE, "--runner", runner, "--out", out)


def test_payloads_are_equal_from_all_runners_and_release_accepts_sealed_ones(
    farm: Product, tmp_path: Path, docker_engine: DockerEngine
) -> None:
    built = {name: build(farm, tmp_path, name) for name in ("process", "bubblewrap", "docker")}
    payloads = {name: document["bundles"][0]["payloads"] for name, document in built.items()}
    assert payloads["bubblewrap"] == payloads["process"]
    assert payloads["docker"] == payloads["process"]
    cells = {name: document["cells"][0] for name, document in built.items()}
    assert {name: cell["runner"] for name, cell in cells.items()} == {name: name for name in built}
    assert len({cell["recipe_key"] for cell in cells.values()}) == 1
    assert len({cell["execution_key"] for cell in cells.values()}) == 3
    for name, status in (("process", 4), ("bubblewrap", 0), ("docker", 0)):
        bundle = tmp_path / f"out-{name}/tiny"
        done = farm.farm("verify", bundle, "--key", farm.public_key, "--policy", "release")
        assert done.status == status, done.stderr
    assert docker_engine.containers() == []


@pytest.mark.parametrize("runner", ["process", "bubblewrap", "docker"])
def test_kernels_are_run_where_they_are_compiled(farm: Product, tmp_path: Path, runner: str) -> None:
    words = ("-t", "riscv64", *SHAPE, "--runner", runner, "--no-cache", "--out", tmp_path / "out")
    [cell] = farm.must("build", tmp_path / "tiny.onnx", *words)["cells"]

    [log] = farm.must("logs", cell["run"])["runs"][cell["run"]]

    lines = Path(log).read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines if '"validated"' in line]
    assert [(one["done"], one["total"]) for one in told] == [(count, len(told)) for count in range(1, len(told) + 1)]
    assert told


def test_the_best_runner_that_is_ready_is_taken_unless_another_is_named(farm: Product, tmp_path: Path) -> None:
    def chosen(**environment: str) -> str:
        there = Product(farm.home, {**farm.environment, **environment})
        words = ("-t", "x86-64-v3", *SHAPE, "--out", tmp_path / "out")
        return str(there.must("build", tmp_path / "tiny.onnx", *words)["cells"][0]["runner"])

    assert chosen() == "docker"
    assert chosen(DOCKER_HOST=f"unix://{tmp_path}/none.sock") == "bubblewrap"
    assert chosen(FARM_RUNNER="process") == "process"
    away = Product(farm.home, {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    done = away.farm("build", tmp_path / "tiny.onnx", "-t", "x86-64-v3", *SHAPE, "--runner", "docker")
    assert (done.status, done.codes) == (3, [Code.RUNNER_UNAVAILABLE])


def test_a_rebuild_in_a_sandbox_agrees_with_a_bare_process(farm: Product, tmp_path: Path) -> None:
    build(farm, tmp_path, "process")
    words = ("-t", "x86-64-v3", "--runner", "bubblewrap", "--vary", "tz,locale,hashseed")
    [one] = farm.must("rebuild", tmp_path / "out-process/tiny", *words)["rebuilt"]
    assert one["same"]
    assert one["varied"] == ["hashseed", "locale", "tz"]


def test_a_shell_sees_what_the_compile_saw(farm: Product, tmp_path: Path) -> None:
    build(farm, tmp_path, "bubblewrap")
    build(farm, tmp_path, "docker")
    for run in ("r1", "r3"):
        argv = ["shell", run, "--", "/bin/sh", "-c", "ls in /farm/code; touch /x; exit 7"]
        done = subprocess.run(
            [sys.executable, "-m", "farm.cli.main", *argv],
            env={**os.environ, "FARM_HOME": str(farm.home), **farm.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 7, done.stderr
        assert {"model.onnx", "request.json", "kernelc", "toolchains"} <= set(done.stdout.split())
        assert "Read-only file system" in done.stderr


def test_a_build_outlives_an_engine_that_is_killed(farm: Product, tmp_path: Path, docker_engine: DockerEngine) -> None:
    words = ("-t", "x86-64-v3", *SHAPE, "--runner", "docker", "--out", tmp_path / "out")
    with farm.started("build", tmp_path / "tiny.onnx", *words) as building:
        farms.eventually(lambda: docker_engine.containers() == ["1"])
        docker_engine.kill()
        time.sleep(1.0)
        docker_engine.start()
        out, err = building.communicate(timeout=300)
        assert building.returncode == 0, err
    assert '"state": "done"' in out or '"state":"done"' in out
    assert docker_engine.containers() == []


def test_a_build_outlives_a_worker_that_is_killed(farm: Product, tmp_path: Path, docker_engine: DockerEngine) -> None:
    environment = {**farm.environment, "FARM_LEASE_S": "4"}
    words = ("-t", "x86-64-v3", *SHAPE, "--runner", "docker", "--out", tmp_path / "out")
    with Product(farm.home, environment).started("build", tmp_path / "tiny.onnx", *words) as building:
        farms.eventually(lambda: docker_engine.containers() == ["1"])
        os.kill(worker_of(building.pid), signal.SIGKILL)
        _out, err = building.communicate(timeout=300)
        assert building.returncode == 0, err
    assert docker_engine.containers() == []


def test_a_container_that_somebody_kills_is_lost_and_run_again(
    farm: Product, tmp_path: Path, docker_engine: DockerEngine
) -> None:
    words = ("-t", "x86-64-v3", *SHAPE, "--runner", "docker", "--out", tmp_path / "out")
    with farm.started("build", tmp_path / "tiny.onnx", *words) as building:
        farms.eventually(lambda: docker_engine.kill_containers() == 1)
        _out, err = building.communicate(timeout=300)
        assert building.returncode == 0, err
    with opened(farm.home / "ledger.sqlite3") as ledger:
        assert [item.outcome for item in ledger.runs.attempts(1)] == [Outcome.LOST, Outcome.DONE]


def worker_of(build: int) -> int:
    """The worker process of a build."""
    for child in farms.children(build):
        if b"farm.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise AssertionError("it has no worker")
