"""Bundles that end-to-end tests share: built once for all test processes of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import product
from tests.support.product import Built, Product


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of this test run have in common."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "shared"


@pytest.fixture(scope="session")
def tiny_bundle(shared: Path) -> Built:
    """A small model of every operator class, for both targets."""
    return product.tiny(shared)


@pytest.fixture(scope="session")
def real_bundle(shared: Path) -> Built:
    """The text-direction model, for both targets."""
    return product.text_direction(shared)


@pytest.fixture
def fresh(tmp_path: Path) -> Product:
    """The command line with empty state and a key."""
    return Product(tmp_path / "home").with_key()
