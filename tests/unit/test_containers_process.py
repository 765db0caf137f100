"""The runner `process`: a clean environment, limits, and a code for every way that a child can end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from containers import runner
from containers.process import ProcessRunner
from containers.runner import Limits, Progress
from kernelfarm import canonical
from kernelfarm.errors import Code, FarmError
from tests.support import payloads

SMALL = Limits(cpu_s=20, wall_s=20.0, address_space=1 << 30, file_size=1 << 20)
GOOD = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support import payloads
payloads.write_result(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    request = {"model": "model.onnx", "model_name": "cls", "target": {"name": "x86-64-v3"}}
    (tmp_path / "in/request.json").write_bytes(canonical.dumps(request))
    (tmp_path / "in/model.onnx").write_bytes(b"a model")
    return tmp_path


def run(scratch: Path, script: str, **options: Any) -> Any:
    program = (sys.executable, "-I", "-c", script)
    return ProcessRunner(program=program).compile_in(scratch, **{"limits": SMALL, **options})


def failure_of(scratch: Path, script: str, **options: Any) -> FarmError:
    with pytest.raises(FarmError) as caught:
        run(scratch, script, log_path=scratch / "log", **options)
    return caught.value


def test_a_good_compile_is_accepted(scratch: Path) -> None:
    root = str(Path(payloads.__file__).parents[2])
    accepted, ended = run(scratch, GOOD.format(root=root), limits=Limits())
    assert accepted.folder == scratch / "out/payload"
    assert ended.ok
    assert ended.max_rss_bytes > 1 << 20


def test_the_child_sees_a_clean_environment_and_relative_paths(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("LD_PRELOAD", "")
    script = "import json,os,sys; print(json.dumps([dict(os.environ), sys.argv[1:], os.getcwd()])); sys.exit(1)"
    failure_of(scratch, script)
    environment, arguments, folder = json.loads((scratch / "log").read_text())
    temp = str(scratch / "tmp")
    assert environment == {
        "HOME": temp,
        "LC_ALL": "C",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": "0",
        "TMPDIR": temp,
        "TZ": "UTC",
    }
    assert (arguments, folder) == (["in", "out"], str(scratch))


def test_progress_lines_are_handed_on_and_other_lines_are_not(scratch: Path) -> None:
    told: list[Progress] = []
    script = """
import sys
print('{"done":1,"name":"g0","stage":"group","total":2}')
print('hello')
print('{"done":-1,"name":"g0","stage":"group","total":2}')
print('{"done":1}')
print('{broken')
sys.exit(1)
"""
    failure_of(scratch, script, on_progress=told.append)
    assert told == [Progress("group", 1, 2, "g0")]


@pytest.mark.parametrize(
    "line",
    [
        '{"done":true,"name":"g","stage":"s","total":2}',
        '{"done":1,"name":"g\\u001b[2J","stage":"s","total":2}',
        '{"done":1.5,"name":"g","stage":"s","total":2}',
        '{"done":1,"name":null,"stage":"s","total":2}',
        '{"done":99999999999,"name":"g","stage":"s","total":2}',
        '{"done":1,"done":2,"name":"g","stage":"s","total":2}',
        "",
    ],
)
def test_a_line_that_only_looks_like_progress_is_none(line: str) -> None:
    assert runner.parse_progress(line) is None


def test_the_childs_own_error_is_raised(scratch: Path) -> None:
    error = FarmError(Code.MODEL_INVALID, "not a model", "it is empty", "Copy it again.", {"offset": 0})
    data = canonical.dumps(error.to_json())
    script = f"import sys,pathlib; pathlib.Path('out/error.json').write_bytes({data!r}); sys.exit(1)"
    assert failure_of(scratch, script).to_json() == error.to_json()


ENDS: dict[str, tuple[str, Code, Limits]] = {
    "no memory to begin with": ("pass", Code.CHILD_MEMORY, Limits(address_space=4 << 20)),
    "no time to begin with": ("pass", Code.CHILD_TIMEOUT, Limits(wall_s=0.001)),
    "too much memory": ("x = bytearray(1 << 31)", Code.CHILD_MEMORY, SMALL),
    "too long": ("import time; time.sleep(60)", Code.CHILD_TIMEOUT, Limits(wall_s=0.3)),
    "too much processor time": ("while True: pass", Code.CHILD_TIMEOUT, Limits(cpu_s=1, wall_s=30.0)),
    "too large a file": ("open('out/x', 'wb').write(bytes(2 << 20))", Code.CHILD_FILE_SIZE, SMALL),
    "killed": ("import os; os.kill(os.getpid(), 9)", Code.CHILD_KILLED, SMALL),
    "crashed": ("import os; os.abort()", Code.CHILD_KILLED, SMALL),
    "no result": ("import sys; sys.exit(7)", Code.CHILD_CRASHED, SMALL),
    "done without a result": ("pass", Code.RESULT_REFUSED, SMALL),
}


@pytest.mark.parametrize(("script", "code", "limits"), ENDS.values(), ids=ENDS)
def test_every_other_end_has_its_code(scratch: Path, script: str, code: Code, limits: Limits) -> None:
    assert failure_of(scratch, script, limits=limits).code is code


def test_an_error_of_a_child_that_ran_out_of_time_is_the_timeout(scratch: Path) -> None:
    error = canonical.dumps(FarmError(Code.MODEL_INVALID, "not a model").to_json())
    script = f"import time,pathlib; pathlib.Path('out/error.json').write_bytes({error!r}); time.sleep(60)"
    assert failure_of(scratch, script, limits=Limits(wall_s=0.5)).code is Code.CHILD_TIMEOUT


def test_the_end_of_the_log_explains_a_crash(scratch: Path) -> None:
    failure = failure_of(scratch, "import sys; print('at group 12', file=sys.stderr); sys.exit(7)")
    assert "at group 12" in failure.detail["log_tail"]


@pytest.mark.parametrize("name", ["a b", "目录"])
def test_the_scratch_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert failure_of(tmp_path / name, "import sys; sys.exit(7)").code is Code.CHILD_CRASHED
