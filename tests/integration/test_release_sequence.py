"""The documented sequence, as the pipelines of examples/ci run it: from a model to a fetched, tested bundle."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

from kernelfarm.paths import Home
from tests.support import graphs, models, planted, release_sequence
from tests.support.release_registry import ReleaseRegistry
from tests.support.release_sequence import CONSUMER, PRODUCER, SCRIPT, Wanted

pytestmark = pytest.mark.services

TARGETS = ("aarch64", "x86-64-v3")
CHANNELS = """
schema = "release-channels/1"
[channels.small]
targets = ["aarch64", "x86-64-v3"]
prerelease = false
sealed = true
licences = true
"""
"""All that the channel "stable" demands, but of two targets."""
ONCE = ("image", "keys")
HOW_TO = models.ROOT / "docs" / "how-to" / "release-and-publish.md"


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)  # for what hangs: a busy machine takes a quarter of an hour
def test_the_steps_of_the_pipelines_release_a_model_that_a_consumer_can_test(
    release_registry: ReleaseRegistry, pinned_image: Home, tmp_path: Path
) -> None:
    # Given a small model that is full of secrets, and a list of the words that only its owner knows as such
    (tmp_path / "channels.toml").write_text(CHANNELS)
    (tmp_path / "words").write_text(f"{planted.WORD}\nfalken_horst\n")
    model = graphs.tiny(tmp_path / "tiny.onnx")
    model.write_bytes(planted.everywhere(onnx.load_model(model)).SerializeToString())
    run = release_sequence.machines(tmp_path, pinned_image)
    channel = {"CHANNEL": "small", "CHANNELS": str(tmp_path / "channels.toml")}

    # When it goes all the way
    words = str(tmp_path / "words")
    made = run.release(Wanted("tiny", model, ""), release_registry, TARGETS, FARM_SCRUB_WORDS=words, **channel)

    # Then the consumer has the very payloads that two workers built, and they work
    assert (made.version, made.verified) == ("1.0.0", True)
    assert made.fetched == made.rebuilt == made.built
    assert sorted(made.self_tests) == list(TARGETS)
    for machine, name in ((run.farm, "release"), (run.consumer, "verify")):
        suite = ET.parse(machine.folder / f"reports/{name}.xml").getroot()
        cases = [(case.get("classname"), case.get("name")) for case in suite.iter("testcase")]
        assert (suite.get("failures"), suite.get("errors"), suite.get("tests")) == ("0", "0", str(len(cases)))
        assert len(set(cases)) == len(cases)  # GitLab tells cases apart by these two names
        assert machine.report(f"{name}.sarif")["runs"][0]["results"] == []
    # And no byte of what was published or fetched holds a secret
    planted.self_check()
    everything = [path for root in (release_registry.folder, run.consumer.folder) for path in root.rglob("*")]
    assert {path for path in everything if path.is_file() and planted.found_in(path.read_bytes())} == set()
    # And the consumer's state holds no private key, only what it remembers of the log
    assert not list(run.consumer.home.glob("keys/*"))

    # Once more, as after a crash: nothing moves
    run.farm.run(SCRIPT, "publish", NAME="tiny", REPOSITORY=f"{release_registry.host}/media/tiny")
    assert run.farm.report("publish.json")["moved"] == 0
    # And without the registry what was fetched is verified all the same
    release_registry.kill()
    run.consumer.run("farm", "fetch", "farm.lock", "--key", "release.pub", "--offline")


def commands(text: str) -> list[str]:
    """The `farm` commands of shell text, without what is done once and what only asks for reports of another form."""
    found = [line for line in text.splitlines() if line.startswith("farm ") and line.split()[1] not in ONCE]
    return [re.sub(r" --(json|junit \S+|sarif \S+)", "", line) for line in found]


def asked(folder: Path, variables: Mapping[str, str]) -> str:
    """The commands that the steps of the script run, a line each."""
    folder.mkdir()
    program = folder / "farm"
    program.write_text(f'#!/bin/sh\necho "farm $*" >> {folder}/asked\necho \'{{"version": "1.0.0"}}\'\n')
    program.chmod(0o755)
    for step in (*PRODUCER, *CONSUMER):
        environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
        subprocess.run([str(SCRIPT), step], cwd=folder, env=environment, check=True)
    return (folder / "asked").read_text()


def test_the_pipelines_run_what_is_documented(tmp_path: Path) -> None:
    variables = {
        "MODEL": "model.onnx",
        "MODEL_LICENCE": "Apache-2.0",
        "TARGETS": "aarch64 armv7 hexagon-v67 riscv64 x86-64-v3 x86-64-v4",
        "CHANNEL": "stable",
        "REPOSITORY": "registry.example/Media/model",  # as GitHub names a project of an owner with capitals
        "KEY": "release.pub",
    }
    assert commands(asked(tmp_path / "work", variables)) == commands(HOW_TO.read_text())


@pytest.mark.parametrize("step", [*PRODUCER, *CONSUMER])
def test_a_step_that_fails_says_why_in_the_log_of_the_pipeline(tmp_path: Path, step: str) -> None:
    program = tmp_path / "farm"
    program.write_text('#!/bin/sh\necho \'{"errors": ["why"]}\'\nexit 4\n')
    program.chmod(0o755)
    names = ("MODEL", "MODEL_LICENCE", "TARGETS", "CHANNEL", "REPOSITORY", "KEY", "NAME", "VERSION")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **dict.fromkeys(names, "x")}

    done = subprocess.run([str(SCRIPT), step], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (4, '{"errors": ["why"]}\n')
    assert (tmp_path / f"reports/{step}.json").read_text() == done.stderr


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_pipelines_run_exactly_these_steps(name: str) -> None:
    text = (SCRIPT.parent / name).read_text()
    lines = [line.split()[-1] for line in text.splitlines() if "examples/ci/release.sh" in line]
    assert lines == [*PRODUCER, *CONSUMER]
    used = {"MODEL", "MODEL_LICENCE", "TARGETS", "CHANNEL", "REPOSITORY", "KEY", "NAME"}
    assert used <= set(re.findall(r"^ +([A-Z_]+): ", text, re.M))
