"""Blobs through a real registry: what goes in comes out, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm import blobs
from farm.blobs import Repository, Token
from farm.gate import authority, registry, tokens
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from kernelfarm.paths import Home
from kernelfarm.store import ContentStore
from tests.support.registry_server import RegistryServer

pytestmark = pytest.mark.services


def repository(server: RegistryServer, name: str = "farm/inputs", *actions: str) -> Repository:
    """A repository with a token for these actions, by default all that there are."""
    access = {name: actions or ("pull", "push")}
    return Repository(server.peer(), name, Token(lambda: tokens.issue(server.keys, "test", access), 60.0))


def stored_file(server: RegistryServer, wanted: digest.Digest) -> Path:
    """Where the registry keeps a blob's bytes."""
    text = digest.hex_of(wanted)
    return server.folder / f"blobs/docker/registry/v2/blobs/sha256/{text[:2]}/{text}/data"


def test_a_blob_goes_in_once_and_comes_out_verified(registry_server: RegistryServer, tmp_path: Path) -> None:
    store, there = ContentStore(tmp_path / "a"), ContentStore(tmp_path / "b")
    inputs = repository(registry_server)
    wanted = store.put_bytes(b"weights" * 100_000)
    assert not inputs.has(wanted)
    inputs.put(store, wanted)
    inputs.put(store, wanted)
    assert inputs.has(wanted)
    blobs.fill(there, inputs, wanted, 700_000, tmp_path)
    assert there.get_bytes(wanted) == b"weights" * 100_000
    assert sorted(path.name for path in tmp_path.glob("*")) == ["a", "b", "blobs", "home", "registry.log"]


def test_an_empty_blob_is_a_blob(registry_server: RegistryServer, tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "a")
    inputs = repository(registry_server)
    wanted = store.put_bytes(b"")
    inputs.put(store, wanted)
    inputs.get(wanted, 0, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize("size", [2, 4])
def test_a_blob_of_another_size_is_refused(registry_server: RegistryServer, tmp_path: Path, size: int) -> None:
    store = ContentStore(tmp_path / "a")
    inputs = repository(registry_server)
    wanted = store.put_bytes(b"abc")
    inputs.put(store, wanted)
    with pytest.raises(FarmError) as caught:
        inputs.get(wanted, size, tmp_path / "out")
    assert caught.value.code is Code.BLOB_REFUSED
    assert not (tmp_path / "out").exists()


def test_bytes_that_the_registry_changed_are_refused(registry_server: RegistryServer, tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "a")
    inputs = repository(registry_server)
    wanted = store.put_bytes(b"good")
    inputs.put(store, wanted)
    stored_file(registry_server, wanted).write_bytes(b"evil")
    with pytest.raises(FarmError) as caught:
        inputs.get(wanted, 4, tmp_path / "out")
    assert caught.value.code is Code.BLOB_REFUSED
    assert not (tmp_path / "out").exists()


def test_a_blob_that_is_not_there_is_missing(registry_server: RegistryServer, tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        repository(registry_server).get(digest.of_bytes(b"never"), 5, tmp_path / "out")
    assert caught.value.code is Code.BLOB_MISSING


def test_a_token_opens_its_own_repository_and_for_its_own_actions(
    registry_server: RegistryServer, tmp_path: Path
) -> None:
    store = ContentStore(tmp_path / "a")
    wanted = store.put_bytes(b"abc")
    for access in ({"farm/inputs": ("pull",)}, {"farm/other": ("pull", "push")}, {}):
        token = tokens.issue(registry_server.keys, "test", access)
        with pytest.raises(FarmError) as caught:
            Repository(registry_server.peer(), "farm/inputs", lambda text=token: text).put(store, wanted)
        assert caught.value.code is Code.REGISTRY_REFUSED


def test_a_token_of_another_key_opens_nothing(registry_server: RegistryServer, tmp_path: Path) -> None:
    """Neither another farm's, nor one that a worker signs with its own certified key."""
    foreign = authority.ensure(Home(tmp_path / "foreign"))
    token = tokens.issue(foreign, "test", {"farm/inputs": ("pull",)})
    with pytest.raises(FarmError) as caught:
        Repository(registry_server.peer(), "farm/inputs", lambda: token).has(digest.of_bytes(b"x"))
    assert caught.value.code is Code.REGISTRY_REFUSED
    keys = registry_server.keys
    keys.token.key.write_bytes(keys.gate.key.read_bytes())
    keys.token.certificate.write_bytes(keys.gate.certificate.read_bytes())
    with pytest.raises(FarmError) as caught:
        repository(registry_server).has(digest.of_bytes(b"x"))
    assert caught.value.code is Code.REGISTRY_REFUSED


def test_who_has_no_certificate_of_the_farm_reaches_no_registry(
    registry_server: RegistryServer, tmp_path: Path
) -> None:
    foreign = authority.ensure(Home(tmp_path / "foreign"))
    stranger = registry.peer(foreign, registry_server.url)
    with pytest.raises(FarmError) as caught:
        Repository(stranger, "farm/inputs", lambda: "x").has(digest.of_bytes(b"x"))
    assert caught.value.code is Code.REGISTRY_UNREACHABLE


def test_a_registry_that_is_away_is_a_coded_error(registry_server: RegistryServer) -> None:
    inputs = repository(registry_server)
    registry_server.kill()
    with pytest.raises(FarmError) as caught:
        inputs.has(digest.of_bytes(b"x"))
    assert caught.value.code is Code.REGISTRY_UNREACHABLE
    registry_server.start()
    assert not inputs.has(digest.of_bytes(b"x"))
