"""The documented sequence, as the pipelines of examples/ci run it: from a model to a fetched, tested bundle.

The farm runs from a clean git checkout of what is here: a release refuses anything else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from farm.release.sources import ROOMS
from tests.support import graphs
from tests.support.release_registry import ReleaseRegistry

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("build", "rebuild", "release", "publish", "verify")
CHANNELS = """
schema = "release-channels/1"
[channels.test]
targets = ["x86-64-v3"]
prerelease = false
"""


def checkout(folder: Path) -> Path:
    """A git checkout of the farm's rooms as they are here, all committed."""
    asked = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard", "--", ".gitignore", *ROOMS]
    for name in subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


class Machine:
    """A folder to work in with a state of its own, and `farm` on its path."""

    def __init__(self, folder: Path, source: Path, **more: str) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        program = folder / "bin/farm"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m farm.cli.main "$@"\n')
        program.chmod(0o755)
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(source),
            "FARM_HOME": str(folder / "home"),
            "FARM_RUNNER": "process",
            "HOME": str(folder),
            **more,
        }

    def run(self, *argv: str | Path, status: int = 0) -> str:
        """What a command prints; it must end with this status."""
        words = [str(word) for word in argv]
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert done.returncode == status, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.mark.timeout(1800)
def test_the_steps_of_the_pipelines_release_a_model_that_a_consumer_can_test(
    release_registry: ReleaseRegistry, tmp_path: Path
) -> None:
    source = checkout(tmp_path / "source")
    model = graphs.tiny(tmp_path / "tiny.onnx")
    repository = f"{release_registry.host}/media/tiny"
    (tmp_path / "channels.toml").write_text(CHANNELS)
    farm = Machine(
        tmp_path / "farm",
        source,
        MODEL=str(model),
        TARGETS="x86-64-v3",
        CHANNEL="test",
        CHANNELS=str(tmp_path / "channels.toml"),
        REPOSITORY=repository,
        KEY=str(tmp_path / "farm/home/keys/default.pub"),
    )
    farm.run("farm", "keys", "new")
    for step in STEPS:
        farm.run(ROOT / "examples/ci/release.sh", step)

    reports = farm.folder / "reports"
    assert json.loads((reports / "release.json").read_text())["version"] == "1.0.0"
    assert json.loads((reports / "verify.json").read_text())["signature"] == "verified"
    for name in ("release", "verify"):
        assert ET.parse(reports / f"{name}.xml").getroot().attrib["failures"] == "0"
        assert json.loads((reports / f"{name}.sarif").read_text())["runs"][0]["results"] == []
    for step in STEPS[2:]:
        farm.run(ROOT / "examples/ci/release.sh", step)  # again, as after a crash
    assert json.loads((reports / "publish.json").read_text())["moved"] == 0

    consumer = Machine(tmp_path / "consumer", source)
    public = shutil.copyfile(farm.environment["KEY"], consumer.folder / "release.pub")
    consumer.run("farm", "verify", f"{repository}:1.0.0", "--key", public)
    consumer.run("farm", "lock", repository, "--key", public)
    consumer.run("farm", "fetch", "farm.lock", "--key", public)
    release_registry.kill()
    consumer.run("farm", "fetch", "farm.lock", "--key", public, "--offline")
    config = json.loads((consumer.folder / "farm.lock").read_text())["bundles"][0]
    bundle = consumer.folder / "bundles" / config["name"]
    found = json.loads(consumer.run("farm", "inspect", bundle, "--json"))
    program = found["targets"]["x86-64-v3"]["files"]["media-run"]["digest"].removeprefix("sha256:")
    device = shutil.copyfile(bundle / "blobs/sha256" / program, tmp_path / "media-run")
    device.chmod(0o755)
    consumer.run(device, bundle, "--self-test")


def test_the_pipelines_run_exactly_these_steps() -> None:
    for name in ("github-actions.yml", "gitlab-ci.yml"):
        text = (ROOT / "examples/ci" / name).read_text()
        lines = [line.split()[-1] for line in text.splitlines() if "examples/ci/release.sh" in line]
        assert lines == list(STEPS)
