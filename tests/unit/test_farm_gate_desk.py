"""What the gate's desk decides without any network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from farm.gate import authority
from farm.gate.desk import Desk, ledger_name
from farm.gate.messages import Beat, Held, Offer
from farm.https import Peer
from farm.ledger.ledger import opened
from farm.ledger.runs import Runs
from kernelfarm.errors import Code, FarmError
from kernelfarm.nouns import RunState
from kernelfarm.store import ContentStore
from tests.support import farms
from tests.support.ledgers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(tmp_path: Path, clock: Clock, ledger_address: Path | str) -> Iterator[Desk]:
    settings = farms.settings(tmp_path / "home")
    keys = authority.ensure(settings.home)
    nowhere = Peer(
        "https://127.0.0.1:1",
        name=authority.REGISTRY,
        authority=keys.ca.certificate,
        identity=keys.gate.certificate,
        key=keys.gate.key,
        unreachable=Code.REGISTRY_UNREACHABLE,
    )
    with opened(ledger_address, clock=clock) as ledger:
        yield Desk(settings, ledger, ContentStore(settings.home.store), keys, nowhere)


def taken(desk: Desk, worker: str) -> Held:
    """A fresh run in the hands of a worker elsewhere."""
    number = farms.submit(desk.ledger, farms.job(desk.store))
    found = desk.ledger.runs.take(ledger_name(worker), lease_s=desk.settings.lease_s, among=[number])
    assert found is not None
    return Held(number, found[0].fencing)


def test_a_lease_is_prolonged_by_the_farms_own_time(desk: Desk, clock: Clock) -> None:
    held = taken(desk, "alice")
    clock.now += 10
    assert desk.beat("alice", Beat(held, None)).until == clock.now + desk.settings.lease_s


def test_no_worker_holds_a_run_longer_than_a_compile_may_take(desk: Desk, clock: Clock) -> None:
    held = taken(desk, "mallory")
    clock.now += desk.settings.limits.wall_s + 899
    desk.beat("mallory", Beat(held, None))
    clock.now += 2
    with pytest.raises(FarmError) as caught:
        desk.beat("mallory", Beat(held, None))
    assert caught.value.code is Code.LEASE_LOST
    clock.now += desk.settings.lease_s  # then it is anybody's
    assert desk.ledger.runs.take("w2", lease_s=20.0, among=[held.run]) is not None


def test_a_log_that_cannot_be_kept_stops_no_run_from_ending(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise FarmError(Code.DISK_FULL, "no space")

    monkeypatch.setattr(Runs, "keep_log", full)
    held = taken(desk, "alice")
    desk.log("alice", held, 0, b"a line\n")
    desk.release("alice", held)
    assert desk.ledger.runs.get(held.run).status.state is RunState.QUEUED


def test_somebody_who_looks_on_sees_the_worker(desk: Desk) -> None:
    desk.beat("alice", Beat(taken(desk, "alice"), None))
    assert [each.name for each in desk.ledger.workers.alive(60.0)] == ["gate:alice"]


def test_a_local_worker_of_the_same_name_is_someone_else(desk: Desk) -> None:
    number = farms.submit(desk.ledger, farms.job(desk.store))
    assert desk.ledger.runs.take("alice", lease_s=20.0, among=[number]) is not None
    with pytest.raises(FarmError) as caught:
        desk.beat("alice", Beat(Held(number, 1), None))
    assert caught.value.code is Code.GATE_REFUSED


@pytest.mark.parametrize("number", [-1, 0, 1 << 31, (1 << 53) - 1])
def test_numbers_that_no_run_has_are_refused(desk: Desk, number: int) -> None:
    """Also those that the ledger's columns do not hold."""
    held = taken(desk, "alice")
    for wrong in (Held(number, held.fencing), Held(held.run, number)):
        with pytest.raises(FarmError) as caught:
            desk.release("alice", wrong)
        assert caught.value.code is Code.GATE_REFUSED


def test_an_offer_fits_only_its_own_sources_tools_and_executions(desk: Desk) -> None:
    job = farms.job(desk.store)
    offer = Offer.of(farms.BOX)
    assert offer.fits(job)
    assert Offer.of(replace(farms.BOX, tools=tuple(reversed(farms.BOX.tools)))).fits(job)
    arm = replace(farms.BOX.execution, builder_arch="aarch64")
    assert not Offer.of(replace(farms.BOX, execution=arm)).fits(job)
    assert Offer.of(replace(farms.BOX, execution=arm, tools=()), farms.BOX).fits(job)
    assert not Offer.of(replace(farms.BOX, tools=()), replace(farms.BOX, execution=arm)).fits(job)  # the arm's tools
    assert not replace(offer, runtime_source=offer.compiler_source).fits(job)
