"""Fixtures of real services, for the tests marked `services`; settings of property tests."""

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
