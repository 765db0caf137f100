"""The engine, Redis, a worker, or the wish for a build is lost while containers compile: the matrix ends as asked, a
second container starts only for a cell whose machinery was lost, and nothing is left behind.

Hints are delivered again within seconds here, so that a sweep which would start a cell twice does so in the test.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelfarm.errors import Code
from kernelfarm.nouns import RunState
from kernelfarm.paths import Home
from tests.support import graphs, models, sealed_farm
from tests.support.docker_engine import DockerEngine
from tests.support.farms import eventually
from tests.support.postgres_server import PostgresServer
from tests.support.sealed_farm import GONE_S, SealedFarm
from tests.support.services import HANG_S

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

TARGETS = ("x86-64-v3", "aarch64", "riscv64")
QUICK = {"FARM_LEASE_S": "4", "FARM_RECONCILE_S": "0.5", "FARM_VISIBILITY_S": "5"}
BUILD_S = 600.0


@pytest.fixture
def farm(
    tmp_path: Path, pinned_image: Home, docker_engine: DockerEngine, postgres_server: PostgresServer
) -> Iterator[SealedFarm]:
    with sealed_farm.running(tmp_path, pinned_image, docker_engine, postgres_server, QUICK) as made:
        yield made


def begin(farm: SealedFarm, folder: Path) -> Any:
    """A build of two small models for three targets."""
    files = [graphs.tiny(folder / f"{name}.onnx", seed=seed) for seed, name in enumerate(("one", "two"), start=1)]
    return farm.begin(*files, *(word for name in TARGETS for word in ("-t", name)), "--out", folder / "bundles")


def states(build: Any) -> list[str]:
    """The states of a build's cells once it has ended."""
    out, err = build.communicate(timeout=BUILD_S)
    try:
        return [cell["state"] for cell in json.loads(out)["cells"]]
    except (ValueError, KeyError):
        raise AssertionError(out + err) from None


def under_way(farm: SealedFarm, count: int) -> set[int]:
    """The runs whose containers run, once there are so many."""
    eventually(lambda: len(farm.sealed()) == count)
    return {int(container.labels["kernel-farm.run"]) for container in farm.sealed()}


def require_single_starts(farm: SealedFarm, *, but: set[int], ended: set[tuple[str, ...]]) -> None:
    """One container and one attempt for every run, except for the runs `but`: at most two, which `ended` so."""
    for run, count in farm.starts.by_run().items():
        outcomes = tuple(farm.outcomes(run))
        if run in but:
            assert count <= 2, f"r{run} was started {count} times"
            assert outcomes in ended, f"r{run} ended as {outcomes}"
        else:
            assert count == 1, f"r{run} was started {count} times and ended as {outcomes}"


def test_kill_9_of_the_engine(farm: SealedFarm, tmp_path: Path, docker_engine: DockerEngine) -> None:
    farm.worker()
    farm.worker()
    build = begin(farm, tmp_path)
    hit = under_way(farm, 2)
    docker_engine.kill()
    docker_engine.start()
    assert states(build) == ["done"] * 6
    # Runs that were asked for while it was away are lost too, though no container ever started for them
    require_single_starts(farm, but=hit, ended={("lost", "done"), ("done",)})
    assert sorted(farm.starts.by_run()) == [1, 2, 3, 4, 5, 6]
    eventually(lambda: farm.left() == [], within_s=GONE_S)


def test_redis_is_killed_and_comes_back_empty(farm: SealedFarm, tmp_path: Path) -> None:
    farm.worker()
    farm.worker()
    build = begin(farm, tmp_path)
    under_way(farm, 2)
    farm.redis.kill()
    farm.redis.start()
    with farm.redis.client() as client:
        client.flushall()
    assert states(build) == ["done"] * 6
    require_single_starts(farm, but=set(), ended=set())
    assert sorted(farm.starts.by_run()) == [1, 2, 3, 4, 5, 6]
    eventually(lambda: farm.left() == [], within_s=GONE_S)


@pytest.mark.parametrize("whole", [False, True], ids=["station", "with-all-processes"])
def test_kill_9_of_a_worker(farm: SealedFarm, tmp_path: Path, whole: bool) -> None:
    doomed = farm.worker()
    farm.worker()
    build = begin(farm, tmp_path)
    under_way(farm, 2)
    hands = {hand for hand, station in farm.hands().items() if station == doomed.pid}
    hit = {row.id for row in farm.ledger.runs.recent() if (row.status.worker or "").startswith("w0-")}
    doomed.send_signal(signal.SIGSTOP)  # so that it does nothing between the two
    for hand in hands if whole else ():
        os.kill(hand, signal.SIGKILL)
    doomed.kill()
    assert len(hit) == len(hands) == 1
    assert states(build) == ["done"] * 6
    require_single_starts(farm, but=hit, ended={("lease-expired", "done"), ("interrupted", "done")})
    assert sorted(farm.starts.by_run()) == [1, 2, 3, 4, 5, 6]
    eventually(lambda: farm.left() == [], within_s=GONE_S)


def test_sigterm_to_the_group_lets_a_container_end(farm: SealedFarm, tmp_path: Path) -> None:
    stopping = farm.worker()
    build = begin(farm, tmp_path)
    [hit] = under_way(farm, 1)
    os.killpg(stopping.pid, signal.SIGTERM)
    assert stopping.wait(HANG_S) == 0
    assert farm.outcomes(hit) == ["done"]
    farm.worker()
    assert states(build) == ["done"] * 6
    require_single_starts(farm, but=set(), ended=set())
    eventually(lambda: farm.left() == [], within_s=GONE_S)


def test_cancel_with_no_worker_up_starts_no_container(farm: SealedFarm, tmp_path: Path) -> None:
    build = begin(farm, tmp_path)
    eventually(lambda: len(farm.ledger.runs.live()) == 6)
    assert farm.product.must("cancel", "b1")["builds"] == {"b1": "cancelled"}
    build.communicate(timeout=BUILD_S)
    assert {row.status.state for row in farm.ledger.runs.recent()} == {RunState.CANCELLED}
    # When workers come, the hints are still in Redis
    farm.worker()
    with farm.redis.client() as client:
        eventually(lambda: client.llen("farm") == 0 and client.hlen("unacked") == 0)
    assert farm.drain() == [0]
    assert farm.starts.by_run() == {}
    assert farm.left() == []


def test_cancel_while_containers_run(farm: SealedFarm, tmp_path: Path) -> None:
    farm.worker()
    farm.worker()
    model = models.find("page-orientation")
    words = [word for name in TARGETS for word in ("-t", name)]
    build = farm.begin(models.fetch(model.name), *words, "--shape", model.shape, "--out", tmp_path / "bundles")
    under_way(farm, 2)
    assert farm.product.must("cancel", "b1")["builds"] == {"b1": "cancelled"}
    eventually(lambda: farm.left() == [], within_s=GONE_S)
    out, _err = build.communicate(timeout=BUILD_S)
    assert [cell["error"]["code"] for cell in json.loads(out)["cells"]] == [Code.INTERRUPTED.number] * 3
    assert {row.status.state for row in farm.ledger.runs.recent()} == {RunState.CANCELLED}
    assert farm.starts.by_run() == {1: 1, 2: 1}
