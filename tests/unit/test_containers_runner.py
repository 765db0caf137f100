"""What runners share: the bounds of an output, the end of a sandbox, the walls of a container."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from containers import docker, runner, sealed, seccomp
from containers.runner import Limits
from kernelfarm.child import ChildResult
from kernelfarm.errors import Code, FarmError


def test_an_output_within_its_bounds_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    runner.require_output(tmp_path, replace(Limits(), output=2 << 20, output_files=2))


def test_a_sparse_file_counts_as_what_it_takes(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stream:
        stream.truncate(1 << 40)
    runner.require_output(tmp_path, replace(Limits(), output=1 << 20))


@pytest.mark.parametrize("bounds", [{"output": 3 << 20}, {"output_files": 3}])
def test_files_in_folders_count_together(tmp_path: Path, bounds: dict[str, int]) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "a/b"):
        (place / "file").write_bytes(os.urandom(2 << 20))
    with pytest.raises(FarmError) as caught:
        runner.require_output(tmp_path, replace(Limits(), **bounds))
    assert caught.value.code is Code.CHILD_OUTPUT


def test_a_link_out_of_the_output_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "large").write_bytes(os.urandom(2 << 20))
    (tmp_path / "out/link").symlink_to(tmp_path)
    runner.require_output(tmp_path / "out", replace(Limits(), output=1 << 20))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, ChildResult(0, None, False, 5)),
        (3, ChildResult(3, None, False, 5)),
        (160 + 9, ChildResult(None, 9, False, 5)),  # the compile was killed
        (128 + 9, ChildResult(None, 9, False, 5)),  # the sandbox was
    ],
)
def test_a_sandboxs_status_tells_how_the_program_ended(status: int, expected: ChildResult) -> None:
    assert sealed.ended(status, timed_out=False, max_rss_bytes=5) == expected


@pytest.mark.parametrize(
    ("line", "peak"),
    [
        ('{"max_rss_bytes":4096}', 4096),
        ('{"max_rss_bytes":-1}', None),
        ('{"max_rss_bytes":true}', None),
        ('{"max_rss_bytes":', None),
        ('{"stage":"import","done":1,"total":1,"name":""}', None),
    ],
)
def test_only_the_sandboxs_own_line_gives_a_peak(line: str, peak: int | None) -> None:
    assert sealed.peak_of(line) == peak


def test_the_walls_of_a_container_are_these() -> None:
    walls = docker.walls(Limits(cores=3))
    plain = {key: value for key, value in walls.items() if key not in ("log_config", "security_opt", "ulimits")}
    assert plain == {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=2147483648,mode=1777"},
        "cap_drop": ["ALL"],
        "pids_limit": 256,
        "mem_limit": 8 << 30,
        "memswap_limit": 8 << 30,
        "nano_cpus": 3_000_000_000,
        "init": False,
        "hostname": "builder",
        "working_dir": "/",
    }
    assert walls["log_config"]["Type"] == "none"
    privileges, profile = walls["security_opt"]
    assert privileges == "no-new-privileges:true"
    assert json.loads(profile.removeprefix("seccomp=")) == seccomp.profile()
    assert {limit["Name"]: limit["Hard"] for limit in walls["ulimits"]} == {"core": 0, "fsize": 4 << 30}


def test_the_environment_inside_holds_nothing_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    found = sealed.environment({"TZ": "XYZ-1"})
    assert "SECRET" not in found
    assert (found["HOME"], found["TMPDIR"], found["PYTHONPATH"], found["TZ"]) == ("/tmp", "/tmp", "/farm/code", "XYZ-1")
