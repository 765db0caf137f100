"""Fixtures of real services, for the tests marked `services`; settings of property tests; which files go first."""

import pytest
from hypothesis import HealthCheck, settings

from tests.support.docker_engine import docker_engine
from tests.support.gate_server import gate_server
from tests.support.ledgers import ledger_address
from tests.support.pinned_image import pinned_image
from tests.support.postgres_server import postgres_server
from tests.support.redis_server import redis_server
from tests.support.registry_server import registry_server
from tests.support.release_registry import release_registry
from tests.support.sandboxes import sandbox

# On a busy machine examples are drawn slowly: time never decides a test.
settings.register_profile("farm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("farm")

FIRST = (
    "test_farm_sealed_matrix.py",
    "test_release_sequence.py",
    "test_queue_losses.py",
    "test_containers_image.py",
    "test_runners_agree.py",
    "test_farm_sealed_chaos.py",
    "test_queue_stops.py",
    "test_licences_planted.py",
)
"""The files that take longest, the longest first: at the end no worker has one before it while the others are idle.

Two that scan the same sources for the first time are not side by side.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of FIRST before the others, which stay in their order."""
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


__all__ = [
    "docker_engine",
    "gate_server",
    "ledger_address",
    "pinned_image",
    "postgres_server",
    "redis_server",
    "registry_server",
    "release_registry",
    "sandbox",
]
