"""Which hints are missing, and what of a broker's address and messages is believed."""

from __future__ import annotations

import threading

import pytest

from farm.queue import Broker
from farm.reconcile import Rounds, missing
from kernelfarm.errors import Code, FarmError
from tests.support.farms import eventually


def test_a_takable_run_wants_a_hint_unless_one_waits() -> None:
    assert missing([(1, "a"), (2, "b"), (3, "c")], waiting=["b"]) == ["a", "c"]


def test_two_runs_of_one_key_want_one_hint() -> None:
    assert missing([(7, "b"), (8, "a"), (9, "b")], waiting=[]) == ["b", "a"]


def test_a_hint_that_waits_for_nothing_is_no_reason_to_send_another() -> None:
    assert missing([], waiting=["a"]) == []


def test_a_broker_shows_its_address_without_the_password() -> None:
    with Broker("redis://user:secret@localhost/3") as broker:
        assert broker.address == "redis://localhost:6379/3"


@pytest.mark.parametrize("address", ["", "localhost:6379", "amqp://localhost", "redis://", "redis://host:port"])
def test_an_address_that_is_not_of_a_redis_is_refused(address: str) -> None:
    with pytest.raises(FarmError) as caught:
        Broker(address)
    assert caught.value.code is Code.USAGE


def test_a_trouble_is_told_once_until_it_is_over() -> None:
    turns: list[int] = []
    said: list[str] = []
    enough = threading.Event()

    def turn() -> None:
        turns.append(1)
        if len(turns) >= 7:
            enough.set()
        if len(turns) != 4:
            raise FarmError(Code.BROKER_UNAVAILABLE, "away")

    with Rounds(turn, 0.01, said.append):
        eventually(enough.is_set)
    assert said == ["FARM-E0620 away", "FARM-E0620 away"]
