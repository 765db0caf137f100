"""A child process under limits: how it ends, what it may use, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kernelfarm import child
from kernelfarm.child import ChildResult, run_limited
from kernelfarm.errors import Code, FarmError, Status
from tests.support.services import HANG_S

REPOSITORY = Path(__file__).parents[2]
SLEEP_FOREVER = "import time; time.sleep(60)"

# Starts a child, another in a session of its own and an orphan of that kind; writes the process ids to argv[1].
FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
orphan = "import subprocess as s, sys; print(s.Popen(sys.argv[1:], stdout=s.DEVNULL, start_new_session=True).pid)"
pids = [os.getpid(), subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
pids.append(int(subprocess.run([sys.executable, "-c", orphan, *sleep], stdout=subprocess.PIPE).stdout))
with open(sys.argv[1] + ".new", "w") as file:
    file.write(" ".join(map(str, pids)))
os.rename(sys.argv[1] + ".new", sys.argv[1])
print("ready", flush=True)
"""


def run(tmp_path: Path, script: str, *argv: str, **keyword: Any) -> ChildResult:
    keyword = {"env": {}, "cwd": tmp_path, "log_path": tmp_path / "log", **keyword}
    return run_limited([sys.executable, "-c", script, *argv], **keyword)


def gone(pid: int) -> bool:
    """Whether a process is no more, or nothing but a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(condition: Any) -> bool:
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def family(path: Path) -> list[int]:
    return [int(text) for text in path.read_text().split()]


def test_lines_go_to_the_callback_and_all_output_to_the_log(tmp_path: Path) -> None:
    lines: list[str] = []
    script = (
        "import sys; print('one'); print('t\\u00e9\\r'); sys.stdout.flush()\n"
        "print('err', file=sys.stderr); print('end', end='')"
    )
    result = run(tmp_path, script, on_line=lines.append, env={"PYTHONUTF8": "1"})
    assert (result.status, result.signal, result.timed_out, result.ok) == (0, None, False, True)
    assert lines == ["one", "té", "end"]
    log = (tmp_path / "log").read_text("utf-8")
    assert sorted(log.replace("end", "end\n").split()) == ["end", "err", "one", "té"]


def test_an_exit_status_and_a_signal_are_told_apart(tmp_path: Path) -> None:
    failed = run(tmp_path, "import sys; sys.exit(7)")
    killed = run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert (failed.status, failed.signal, failed.ok) == (7, None, False)
    assert (killed.status, killed.signal, killed.ok) == (None, signal.SIGKILL, False)


def test_a_program_that_cannot_be_started_is_an_environment_error(tmp_path: Path) -> None:
    (tmp_path / "not-executable").write_bytes(b"")
    for name, why in (("none", "No such file or directory"), ("not-executable", "Permission denied")):
        with pytest.raises(FarmError) as caught:
            run_limited([tmp_path / name], env={}, cwd=tmp_path)
        assert (caught.value.code, caught.value.status) == (Code.CHILD_NOT_STARTED, Status.ENVIRONMENT)
        assert (caught.value.what, caught.value.why) == (f"{tmp_path / name} could not be started", why)
    with pytest.raises(FarmError) as caught:
        run(tmp_path, "pass", cwd=tmp_path / "nowhere")
    assert caught.value.what == f"{tmp_path / 'nowhere'} could not be started"


def test_the_child_sees_exactly_what_it_is_given(tmp_path: Path) -> None:
    lines: list[str] = []
    script = (
        "import os, sys, signal, resource\n"
        "print(sorted(os.environb.items())); print(os.fsencode(sys.argv[1])); print(sys.stdin.read() == '')\n"
        "print(os.getcwd()); print(oct(os.umask(0))); print(sorted(os.listdir('/proc/self/fd'))[:4])\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ())); print(resource.getrlimit(resource.RLIMIT_CORE))"
    )
    folder = tmp_path / "a b é"
    folder.mkdir()
    run(tmp_path, script, "\udcffé", cwd=folder, env={"LC_ALL": "C.UTF-8", "K": "\udcfe"}, on_line=lines.append)
    assert lines == [
        "[(b'K', b'\\xfe'), (b'LC_ALL', b'C.UTF-8')]",
        "b'\\xff\\xc3\\xa9'",
        "True",
        str(folder),
        "0o22",
        "['0', '1', '2', '3']",  # 3 is the listing itself
        "set()",
        "(0, 0)",
    ]


def test_signals_that_python_ignores_are_not_ignored_in_the_child(tmp_path: Path) -> None:
    result = run_limited(["/bin/sh", "-c", "kill -PIPE $$"], env={}, cwd=tmp_path)
    assert result.signal == signal.SIGPIPE


@pytest.mark.parametrize(
    ("limit", "script", "status", "signal_number"),
    [
        ({"cpu_s": 1}, "while True: pass", None, signal.SIGXCPU),
        ({"cpu_s": 1}, "import signal as s; s.signal(s.SIGXCPU, s.SIG_IGN)\nwhile True: pass", None, signal.SIGKILL),
        ({"address_space": 256 << 20}, "import mmap; mmap.mmap(-1, 300 << 20)", 1, None),
        ({"address_space": 512 << 20}, "import mmap; mmap.mmap(-1, 300 << 20)", 0, None),
        ({"file_size": 1000}, "with open('f', 'wb') as f: f.write(bytes(1001))", 1, None),
        ({"file_size": 1001}, "with open('f', 'wb') as f: f.write(bytes(1001))", 0, None),
    ],
)
def test_a_limit_holds(
    tmp_path: Path, limit: dict[str, int], script: str, status: int | None, signal_number: int | None
) -> None:
    result = run(tmp_path, script, **limit)
    assert (result.status, result.signal, result.timed_out) == (status, signal_number, False)


def test_the_log_is_not_bound_by_the_childs_file_size_but_by_its_own_limit(tmp_path: Path) -> None:
    lines: list[str] = []
    result = run(tmp_path, "print('x' * 5000)", file_size=10, log_limit=1000, on_line=lines.append)
    assert result.ok
    assert (tmp_path / "log").read_bytes() == b"x" * 1000 + b"\n[log cut at 1000 bytes]\n"
    assert lines == ["x" * 5000]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    lines: list[str] = []
    run(tmp_path, "print('x' * (1 << 20)); print('next')", on_line=lines.append)
    assert [len(line) for line in lines] == [child.LINE_LIMIT, 4]


def test_the_wall_limit_kills_the_whole_family(tmp_path: Path) -> None:
    for wall_s in (1.5, 10.0, 40.0):  # on a busy machine a family takes long to stand
        result = run(tmp_path, FAMILY + SLEEP_FOREVER, str(tmp_path / "pids"), wall_s=wall_s)
        assert (result.status, result.signal, result.timed_out, result.ok) == (None, signal.SIGKILL, True, False)
        if (tmp_path / "pids").exists():
            break
    assert [pid for pid in family(tmp_path / "pids") if not gone(pid)] == []


def test_what_a_child_left_running_ends_with_it(tmp_path: Path) -> None:
    result = run(tmp_path, FAMILY, str(tmp_path / "pids"), wall_s=30)
    assert result.ok
    pids = family(tmp_path / "pids")
    assert len(set(pids)) == 4
    assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, FarmError(Code.INTERNAL, "x"), ValueError])
def test_an_exception_in_the_callback_kills_the_family_and_goes_through(tmp_path: Path, kind: Any) -> None:
    def refuse(line: str) -> None:
        assert line == "ready"
        raise kind

    with pytest.raises(kind if isinstance(kind, type) else type(kind)):
        run(tmp_path, FAMILY + SLEEP_FOREVER, str(tmp_path / "pids"), on_line=refuse)
    assert [pid for pid in family(tmp_path / "pids") if not gone(pid)] == []


PARENT = """
import sys
from pathlib import Path
from kernelfarm.child import run_limited
run_limited([sys.executable, "-c", sys.argv[1], sys.argv[2]], env={}, cwd=Path("/"))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_farm_itself_is_ended(tmp_path: Path, number: int) -> None:
    pids = tmp_path / "pids"
    argv = [sys.executable, "-c", PARENT, FAMILY + SLEEP_FOREVER, str(pids)]
    process = subprocess.Popen(argv, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    assert wait_until(pids.exists)
    process.send_signal(number)
    _out, text = process.communicate(timeout=10)
    assert (number == signal.SIGINT) == ("KeyboardInterrupt" in text)
    assert wait_until(lambda: all(gone(pid) for pid in family(pids)))


def test_children_are_found_with_and_without_the_kernels_list_of_them() -> None:
    script = (
        "import subprocess, sys; from kernelfarm import _launch\n"
        "child = subprocess.Popen(['/bin/sleep', '60'])\n"
        "print(_launch._children() == _launch._children_by_scan() == [child.pid]); child.kill()"
    )
    answer = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert answer.stdout == "True\n"


def test_a_killed_launcher_is_told_and_its_child_is_gone(tmp_path: Path) -> None:
    def kill_launcher(line: str) -> None:
        os.kill(int(line), signal.SIGKILL)

    script = "import os, sys; print(os.getpid(), file=open(sys.argv[1], 'w')); print(os.getppid(), flush=True)\n"
    with pytest.raises(FarmError) as caught:
        run(tmp_path, script + SLEEP_FOREVER, str(tmp_path / "pids"), on_line=kill_launcher)
    assert caught.value.code is Code.CHILD_KILLED
    assert wait_until(lambda: gone(family(tmp_path / "pids")[0]))


@pytest.mark.parametrize("where", ["child", "grandchild", "orphan"])
def test_the_largest_resident_set_of_any_descendant_is_reported(tmp_path: Path, where: str) -> None:
    use = "x = bytearray(b'1') * (150 << 20)"
    script = {
        "child": use,
        "grandchild": "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])",
        "orphan": "import os, time\nif os.fork():\n    time.sleep(1); os._exit(0)\nif os.fork():\n    os._exit(0)\n"
        + use
        + "\ntime.sleep(60)",
    }[where]
    small, large = run(tmp_path, "pass"), run(tmp_path, script, use)
    assert small.max_rss_bytes < 40 << 20
    assert 150 << 20 < large.max_rss_bytes < 200 << 20


def test_children_of_several_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    results: dict[int, int | None] = {}

    def work(number: int) -> None:
        script = f"import sys, time; time.sleep(0.2); sys.exit({number})"
        results[number] = run(tmp_path, script, log_path=None, wall_s=20).status

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_log_that_cannot_be_made_is_an_environment_error(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        run(tmp_path, "pass", log_path=tmp_path / "none" / "log")
    assert (caught.value.code, caught.value.status) == (Code.FILE_MISSING, Status.ENVIRONMENT)


def test_a_full_disk_under_the_log_ends_the_child(tmp_path: Path) -> None:
    with pytest.raises(FarmError) as caught:
        run(tmp_path, f"print('x', flush=True); {SLEEP_FOREVER}", log_path=Path("/dev/full"))
    assert caught.value.code is Code.DISK_FULL


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    run(tmp_path, "pass")
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    run(tmp_path, "pass")
    with pytest.raises(FarmError):
        run_limited([tmp_path / "none"], env={}, cwd=tmp_path)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_look_that_raises_ends_the_program(tmp_path: Path) -> None:
    looked: list[int] = []

    def look(launcher: int) -> None:
        looked.append(launcher)
        if len(looked) == 2:
            raise LookupError

    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    began = time.monotonic()
    with pytest.raises(LookupError):
        child.run_limited(argv, env={}, cwd=tmp_path, on_look=look, look_s=0.05)
    assert time.monotonic() - began < 30
    assert looked[0] == looked[1]


def test_addresses_are_fixed_where_that_is_asked_for(tmp_path: Path) -> None:
    script = "print(id(object), open('/proc/self/personality').read())"
    met: dict[bool, list[str]] = {False: [], True: []}
    for fixed in (False, True, False, True, False, True):
        assert run(tmp_path, script, on_line=met[fixed].append, fixed_addresses=fixed).ok
    assert [line.split()[1] for line in met[True] if line] == ["00040000"] * 3
    assert len(set(filter(None, met[True]))) == 1
    assert len(set(filter(None, met[False]))) > 1
