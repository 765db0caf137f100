"""Four real models for six targets through Redis, PostgreSQL and Docker, by two workers: the bytes of any other way.

It is released by the documented sequence, which has it rebuilt first, and fetched by a consumer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.ledger.ledger import opened
from kernelfarm.paths import Home
from tests.support import farms, models, release_sequence, sealed_farm
from tests.support.docker_engine import DockerEngine
from tests.support.pinned_image import lend
from tests.support.postgres_server import PostgresServer
from tests.support.product import Product
from tests.support.release_sequence import LICENCE, Released
from tests.support.sealed_farm import GONE_S, Made, SealedFarm, differences, made_of
from toolchains import target

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(3600)]

TARGETS = target.names()
CELLS = [(model.name, name) for model in models.MODELS for name in TARGETS]
BUILD_S = 3000.0


@pytest.fixture(scope="module")
def farm(
    tmp_path_factory: pytest.TempPathFactory,
    pinned_image: Home,
    docker_engine: DockerEngine,
    postgres_server: PostgresServer,
) -> Iterator[SealedFarm]:
    folder = tmp_path_factory.mktemp("sealed")
    with sealed_farm.running(folder, pinned_image, docker_engine, postgres_server) as made:
        yield made


@pytest.fixture(scope="module")
def matrix(farm: SealedFarm, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What two workers made of the matrix; the four builds wait for it side by side."""
    out = tmp_path_factory.mktemp("bundles")
    for _ in range(2):
        farm.worker()
    for model in models.MODELS:
        farm.begin(*words(model.name, out))
    made = made_of([load(build.communicate(timeout=BUILD_S)) for build in farm.builds], farm.ledger)
    assert differences(made, made) == []  # no cell failed; the other tests need not begin otherwise
    return made


@pytest.fixture(scope="module")
def released(farm: SealedFarm, matrix: Made, tmp_path_factory: pytest.TempPathFactory) -> list[Released]:
    """What the documented sequence made of the matrix: a second worker rebuilds it, in bubblewrap and without queue."""
    folder = tmp_path_factory.mktemp("release")
    run = release_sequence.machines_of(folder, farm.product, "docker", "bubblewrap")
    made = release_sequence.release_all(run, folder / "registry", [model.name for model in models.MODELS], TARGETS)
    assert {(one.name, name): payload for one in made for name, payload in one.built.items()} == matrix.payloads
    return made


def words(name: str, out: Path) -> list[str | Path]:
    """What `farm build` is told to make a model's bundle."""
    targets = [word for one in TARGETS for word in ("-t", one)]
    shape = ("--shape", models.small_shape(name))
    return [models.fetch(name), *targets, *shape, "--name", name, "--model-licence", LICENCE, "--out", out]


def load(said: tuple[str, str]) -> Any:
    """The document that a build printed."""
    try:
        return json.loads(said[0])
    except ValueError:
        raise AssertionError(said) from None


def alone(product: Product, out: Path, *more: str) -> Made:
    """What builds without a broker, one after another, make of the matrix."""
    product.with_key()
    documents = []
    for model in models.MODELS:
        with product.started("build", *words(model.name, out), *more) as build:
            documents.append(load(build.communicate(timeout=BUILD_S)))
    with opened(product.home / "ledger.sqlite3") as ledger:
        return made_of(documents, ledger)


def test_every_cell_is_compiled_in_one_container_and_nothing_is_left(farm: SealedFarm, matrix: Made) -> None:
    assert sorted(matrix.payloads) == sorted(CELLS)
    assert len(set(matrix.keys.values())) == len(CELLS)
    farms.eventually(lambda: len(farm.starts.by_run()) == len(CELLS))
    assert farm.starts.by_run() == dict.fromkeys(matrix.runs.values(), 1)
    stations = {attempt.worker.rpartition("-")[0] for run in matrix.runs.values() for attempt in farm.attempts(run)}
    assert stations == {"w0", "w1"}
    farms.eventually(lambda: farm.left() == [], within_s=GONE_S)


def test_its_payloads_are_those_of_bare_processes_without_a_broker(
    matrix: Made, pinned_image: Home, tmp_path: Path
) -> None:
    # Given a farm that has nothing but the image, so that nothing comes from a cache
    lend(pinned_image, tmp_path / "home")
    found = alone(Product(tmp_path / "home"), tmp_path / "bundles", "--runner", "process")
    # Then no file of any cell differs
    assert differences(found, matrix) == []
    assert sorted(found.payloads) == sorted(CELLS)
    assert not set(found.keys.values()) & set(matrix.keys.values())


def test_its_payloads_are_those_of_a_second_worker_in_bubblewrap(matrix: Made, released: list[Released]) -> None:
    assert {(one.name, name): payload for one in released for name, payload in one.rebuilt.items()} == matrix.payloads


def test_the_documented_sequence_releases_all_of_it_to_a_consumer(released: list[Released]) -> None:
    # Given a machine that has nothing but the public key
    for one in released:
        # Then it fetched the very payloads of both workers
        assert (one.version, one.verified) == ("1.0.0", True)
        assert sorted(one.built) == list(TARGETS)
        assert one.fetched == one.rebuilt == one.built
        # And they answer as the model does, wherever this processor or an emulator can run them
        assert set(one.self_tests) == {*TARGETS} - {*release_sequence.untestable(TARGETS)}


@pytest.mark.usefixtures("matrix")
def test_two_workers_stop_when_they_are_told_to(farm: SealedFarm) -> None:
    assert farm.drain() == [0, 0]
