"""What `--vary` names, and what the launcher does to a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm import elsewhere, surroundings
from farm.surroundings import Variation
from kernelfarm.errors import Code, FarmError

PROBE = """
import json, os, socket, time
print(json.dumps({
    "umask": os.umask(0), "cores": len(os.sched_getaffinity(0)), "host": socket.gethostname(), "zone": time.tzname[0],
    "hash": hash("kernel"), "home": os.environ.get("HOME"), "user": os.geteuid(),
    "listdir": os.listdir("folder"), "scandir": [entry.name for entry in os.scandir("folder")],
}))
"""


def test_all_names_every_variation_and_a_list_keeps_the_order_of_the_enum():
    assert surroundings.parse("all") == tuple(Variation)
    assert surroundings.parse("cpu, dir,cpu") == (Variation.DIRECTORY, Variation.CPU)


def test_an_unknown_variation_is_wrong_usage():
    with pytest.raises(FarmError) as raised:
        surroundings.parse("dir,weather")

    assert raised.value.code is Code.USAGE
    assert raised.value.next_step == ("Known: all, dir, tz, umask, locale, home, hashseed, hostname, core, order, cpu.")


@pytest.mark.parametrize("variation", list(Variation))
def test_each_variation_changes_something_and_no_other_one_changes_the_same(variation: Variation):
    nothing = _facts(surroundings.surroundings([]))
    changed = {
        name for name, value in _facts(surroundings.surroundings([variation])).items() if nothing.get(name) != value
    }
    others = [other for other in Variation if other is not variation]
    rest = _facts(surroundings.surroundings(others))

    assert changed
    assert all(rest.get(name) == nothing.get(name) for name in changed)


def test_without_a_variation_the_launcher_changes_nothing(tmp_path: Path):
    found = _launch(tmp_path, surroundings.surroundings([]))

    assert (found["umask"], found["cores"]) == (0o022, len(os.sched_getaffinity(0)))
    assert sorted(found["listdir"]) == ["a", "b", "c"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not pin processes")
def test_all_variations_reach_the_process(tmp_path: Path):
    first = _launch(tmp_path, surroundings.surroundings(Variation, home="/home/elsewhere"))

    assert first["umask"] == 0o077
    assert first["cores"] == 1
    assert first["host"] == "another-host"
    assert first["zone"] == "XYZ"
    assert first["home"] == "/home/elsewhere"
    assert first["user"] == os.geteuid()
    assert first["listdir"] == first["scandir"] == ["c", "b", "a"]
    assert _launch(tmp_path, surroundings.surroundings(Variation))["hash"] == first["hash"]


def _facts(around: surroundings.Surroundings) -> dict[str, object]:
    facts: dict[str, object] = {
        name: getattr(around, name) for name in ("directory", "umask", "host_name", "cores", "reverse")
    }
    return facts | dict(around.environment)


def _launch(folder: Path, around: surroundings.Surroundings) -> dict[str, object]:
    (folder / "probe.py").write_text(PROBE)
    (folder / "folder").mkdir(exist_ok=True)
    for name in ("b", "a", "c"):
        (folder / "folder" / name).touch()
    environment = {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **around.environment}
    done = subprocess.run(
        [*around.launcher(min(os.sched_getaffinity(0))), "probe"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == elsewhere.NO_NAMESPACE:
        pytest.skip(f"the host name cannot be varied here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found
