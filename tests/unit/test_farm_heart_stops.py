"""When the heart of a lease stops a compile: lost, not wanted any more, silent; and when it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from containers.runner import Progress
from farm.heart import Heart
from farm.ledger.rules import Lease
from farm.scheduler import Session
from kernelfarm.errors import Code, FarmError
from tests.support import farms


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Session]:
    with farms.session(tmp_path / "home", lease_s=0.4) as made:
        yield made


@pytest.fixture
def lease(farm: Session) -> Lease:
    number = farms.submit(farm.ledger, farms.job(farm.store))
    taken = farm.ledger.runs.take("w1", lease_s=20, among=[number])
    assert taken is not None
    return taken[0]


def test_a_run_that_is_cancelled_is_stopped(farm: Session, lease: Lease) -> None:
    stopped = threading.Event()
    with Heart(farm.ledger.runs, lease, farm.settings, stopped.set) as heart:
        farm.ledger.runs.cancel([lease.run_id])
        assert stopped.wait(15)
        heart.require_progress()  # it was not for want of it


def test_a_compile_without_progress_is_stopped(farm: Session, lease: Lease) -> None:
    stopped = threading.Event()
    with Heart(farm.ledger.runs, lease, replace(farm.settings, silence_s=0.3), stopped.set) as heart:
        assert stopped.wait(15)
        with pytest.raises(FarmError) as caught:
            heart.require_progress()
    assert caught.value.code is Code.CHILD_SILENT


def test_progress_keeps_a_compile_alive(farm: Session, lease: Lease) -> None:
    stopped = threading.Event()
    with Heart(farm.ledger.runs, lease, replace(farm.settings, silence_s=3.0), stopped.set) as heart:
        for number in range(20):
            heart.tell(Progress("group", number, 20, "g"))
            time.sleep(0.2)
        assert not stopped.is_set()
