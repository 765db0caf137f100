"""Engines with threads: one answer for any number of them, nothing left behind, and what the system may refuse."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farm import engine
from tests.support import device
from tests.support.services import HANG_S

CHECKED = {"plain": device.program, "checked": device.checked_program}
"""With and without address checks."""


def pool(kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return device.run(CHECKED[kind]("pool"), *arguments, timeout_s=HANG_S)


def threads(kind: str, mode: str, *arguments: str | Path) -> int:
    """Status of runtime/tests/threads.c."""
    return device.run(CHECKED[kind]("threads"), mode, *arguments, timeout_s=HANG_S).returncode


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return device.write(tmp_path / "bundle", device.large())


@pytest.mark.parametrize("count", ["1", "2", "3", "8", "64"])
@pytest.mark.parametrize("kind", CHECKED)
def test_every_part_of_many_tiny_jobs_is_computed_once_however_many_threads(kind: str, count: str) -> None:
    answer = pool(kind, "steady", count, "20000")

    assert (answer.returncode, answer.stdout) == (0, "")


@pytest.mark.parametrize("count", ["2", "5", "64"])
def test_threads_that_fell_asleep_are_woken_and_those_that_dawdle_are_waited_for(count: str) -> None:
    answer = pool("plain", "sleepy", count, "2000")

    assert (answer.returncode, answer.stdout) == (0, "")


@pytest.mark.parametrize(("count", "jobs"), [("2", "5000"), ("3", "12000"), ("8", "3000")])
def test_every_thread_is_woken_for_every_job(count: str, jobs: str) -> None:
    """Jobs that are over when all threads are in them at once: one that misses its wake-up makes them endless.

    A matter of luck: without the last look before sleeping about every third run hung. The proof is in
    tests/property/test_runtime_pool_model.py.
    """
    assert pool("plain", "meet", count, jobs).returncode == 0


def test_a_call_of_another_type_in_a_thread_ends_the_process_before_the_callee_runs() -> None:
    good, bad = pool("plain", "good"), pool("plain", "other-type")

    assert (good.returncode, good.stdout) == (0, "ran\n")
    assert (bad.returncode, bad.stdout) == (-signal.SIGILL, "")


@pytest.mark.parametrize("kind", CHECKED)
def test_the_answer_does_not_depend_on_threads_or_ranges(kind: str, bundle: Path) -> None:
    assert threads(kind, "same", bundle) == 0


@pytest.mark.parametrize("kind", CHECKED)
def test_what_is_out_of_range_is_refused(kind: str, bundle: Path) -> None:
    assert threads(kind, "limits", bundle) == 0


def test_a_thousand_engines_leave_no_thread_no_memory_and_no_file(tmp_path: Path) -> None:
    assert threads("plain", "churn", device.write(tmp_path / "bundle", device.tiny()), "1000") == 0


@pytest.mark.parametrize("kind", CHECKED)
def test_in_a_child_an_engine_works_alone_and_can_be_destroyed(kind: str, bundle: Path) -> None:
    assert threads(kind, "fork", bundle) == 0


@pytest.mark.parametrize("kind", CHECKED)
def test_many_engines_work_at_once_on_threads_of_the_host(kind: str, bundle: Path) -> None:
    assert threads(kind, "hosts", bundle) == 0


@pytest.mark.parametrize("mode", ["forbidden", "short"])
def test_where_the_system_refuses_a_thread_nothing_is_left_of_the_engine(mode: str, bundle: Path) -> None:
    assert threads("plain", mode, bundle) == 0


HOST = """
import os, sys, threading
from pathlib import Path
import numpy as np
from farm.engine import Engine
library, layout, values = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
x = np.arange(values, dtype=np.float32)[None]
def use(engine):
    y = np.zeros_like(x)
    run = engine.bind({"x": x}, {"y": y})
    for _ in range(20):
        y[:] = 0
        run()
        assert (y == 2.5 * x).all()
made = []
def host(count):
    with Engine(library, layout, "tiny", count) as engine:
        use(engine)
    made.append(Engine(library, layout, "tiny", count))  # outlives the thread that made it
hosts = [threading.Thread(target=host, args=(1 + k % 4,)) for k in range(12)]
for one in hosts: one.start()
for one in hosts: one.join()
assert len(made) == 12
child = os.fork()
for engine in made:
    use(engine)
    engine.__exit__(None, None, None)
if child == 0: os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("ran")
"""


def test_a_process_with_its_own_libc_and_threads_shares_the_library(bundle: Path) -> None:
    """Its own threads come and go: those of an engine need nothing of the one that made them."""
    words = [str(device.runtime() / "libmedia_engine.so"), str(bundle), str(64 * device.N)]

    answer = subprocess.run(
        [sys.executable, "-c", HOST, *words], capture_output=True, text=True, timeout=HANG_S, check=False
    )

    assert (answer.returncode, answer.stdout) == (0, "ran\n"), answer.stderr


@pytest.mark.parametrize("count", ["1", "2", "3", "64"])
def test_media_run_takes_a_number_of_threads(bundle: Path, tmp_path: Path, count: str) -> None:
    x, y = tmp_path / "x.bin", tmp_path / "y.bin"
    x.write_bytes(device.ramp(64 * device.N, 1.0))

    answer = device.run(
        device.runtime() / "media-run", bundle, "--input", f"x={x}", "--output", f"y={y}", "--threads", count
    )

    assert (answer.returncode, answer.stderr) == (0, "")
    assert y.read_bytes() == device.ramp(64 * device.N, 2.5)


def test_the_limit_is_said_by_the_header_by_media_run_and_by_the_bench() -> None:
    header = (device.runtime() / "media_engine.h").read_text()

    assert re.findall(r"define MEDIA_MAX_THREADS (\d+)u", header) == [str(engine.MAX_THREADS)]
    help_text = device.run(device.runtime() / "media-run", "--help").stdout
    assert f"at most {engine.MAX_THREADS};" in help_text
