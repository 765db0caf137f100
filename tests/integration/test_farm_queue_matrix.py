"""Real compiles over real workers and a real Redis, on SQLite and on PostgreSQL: the embedded run's bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import graphs
from tests.support.product import Product
from tests.support.redis_server import RedisServer
from tests.support.services import HANG_S

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

TARGETS = ("x86-64-v3", "aarch64")


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    return [graphs.tiny(tmp_path / f"{name}.onnx", seed=seed) for seed, name in enumerate(("one", "two"), start=1)]


def build(product: Product, models: list[Path], out: Path, *more: str) -> dict[tuple[str, str], Any]:
    """The cells of a build with a rule of its own, by model and target."""
    targets = [word for target in TARGETS for word in ("-t", target)]
    rules = models[0].with_name("rules.yaml")
    rules.write_text("fusion_rule: {name: mine, benefit: 9, pattern: [{op: conv}, {op: hard_swish}]}\n")
    asked = ("--runner", "process", "--rules", rules, "--out", out)
    document = product.with_key().must("build", *models, *targets, *asked, *more)
    return {(cell["model"], cell["target"]): cell for cell in document["cells"]}


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"])
def test_two_workers_give_the_bytes_of_the_embedded_run(
    tmp_path: Path, models: list[Path], redis_server: RedisServer, ledger: str, request: pytest.FixtureRequest
) -> None:
    embedded = build(Product(tmp_path / "alone"), models, tmp_path / "alone-bundles")
    settings = {"FARM_BROKER_URL": redis_server.url, "FARM_RUNNER": "process"}
    if ledger == "postgresql":
        settings["FARM_LEDGER_URL"] = request.getfixturevalue("postgres_server").database()
    farm = Product(tmp_path / "home", settings)
    workers = [start_worker(farm) for _ in range(2)]
    try:
        queued = build(farm, models, tmp_path / "bundles")
        again = build(farm, models, tmp_path / "bundles")
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        ended = [worker.wait(timeout=HANG_S) for worker in workers]
    assert ended == [0, 0]
    assert digests(queued) == digests(embedded)
    assert len(queued) == 4
    assert not any(cell["cached"] for cell in queued.values())
    assert all(cell["cached"] for cell in again.values())
    # and the release can be verified as any other
    farm.must("verify", tmp_path / "bundles" / "one", "--key", farm.public_key)


def digests(cells: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], str]:
    return {key: cell["payload"] for key, cell in cells.items()}


def start_worker(farm: Product) -> subprocess.Popen[str]:
    """A `farm worker` of its own."""
    argv = [sys.executable, "-m", "farm.cli.main", "worker"]
    environment = {**os.environ, "FARM_HOME": str(farm.home), **farm.environment}
    process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "takes up to 1" in process.stderr.readline()
    return process
