"""The documented sequence from a model to a tested release, as the pipelines of examples/ci run it, with its figures.

The farm runs from a clean git checkout of what is here: a release refuses anything else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm.licences import gate
from farm.release.sources import ROOMS
from kernelfarm.paths import Home
from tests.support import models, pinned_image, release_registry
from tests.support.product import Product
from tests.support.release_registry import ReleaseRegistry
from toolchains import processor, target

SCANS = models.ROOT / "build" / "scans"
"""Recorded licence scans, kept by content and scanner: what a farm recorded, every other one may take."""
ENVIRONMENT = Path("build", "venv")
SCRIPT = models.ROOT / "examples" / "ci" / "release.sh"
LICENCE = "Apache-2.0"
"""What the tests say of the models' licence."""
PRODUCER = ("build", "rebuild", "release", "publish")
CONSUMER = ("verify", "lock", "fetch", "self-test")
"""What is done on a machine that has nothing but the public key."""
_COMMAND_S = 4 * 3600.0
"""Ends a command that hangs; one of a busy machine takes minutes."""


def checkout(folder: Path, change: Mapping[str, str] | None = None) -> Path:
    """A git checkout of the farm's rooms as they are here, with files of `change` in place of theirs; all committed."""
    asked = ["git", "-C", str(models.ROOT), "ls-files", "-z", "-co", "--exclude-standard", "--", ".gitignore", *ROOMS]
    for name in subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (models.ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(models.ROOT / name, folder / name)
    for name, text in (change or {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "build").mkdir()
    for tools in ("scan", "tools"):
        (folder / "build" / tools).symlink_to(models.ROOT / "build" / tools)
    _environment(folder)
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


def _environment(source: Path) -> None:
    """A Python environment in which the checkout is installed: processes of the farm look at nothing else.

    Its libraries are those of this one; a path file of theirs, which names the tree here, is not read.
    """
    venv.create(source / ENVIRONMENT, with_pip=False, symlinks=True)
    paths = [str(source), *map(str, dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))]
    inside = sysconfig.get_path("purelib", vars={"base": str(source / ENVIRONMENT)})
    Path(inside, "checkout.pth").write_text("\n".join(paths) + "\n")


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder to work in, and the `farm` of a checkout on its path; its state is its own, or that of FARM_HOME."""

    folder: Path
    source: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir(parents=True)
        program = self.folder / "bin" / "farm"
        python = self.source / ENVIRONMENT / "bin" / "python"
        program.write_text(f'#!/bin/sh\nexec {python} -I -m farm.cli.main "$@"\n')
        program.chmod(0o755)

    @property
    def home(self) -> Path:
        """Its state."""
        return Path(self.variables.get("FARM_HOME", self.folder / "home"))

    def run(self, *argv: str | Path, status: int = 0, **more: str) -> str:
        """What a command prints; it must end with this status."""
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "FARM_HOME": str(self.home),
            "HOME": str(self.folder),
            **self.variables,
            **more,
        }
        words = [str(word) for word in argv]
        done = subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
        assert done.returncode == status, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def timed(self, *argv: str | Path, **more: str) -> float:
        """Seconds of a command that must end with 0."""
        start = time.monotonic()
        self.run(*argv, **more)
        return time.monotonic() - start

    def document(self, *argv: str | Path, status: int = 0) -> Any:
        """The JSON document that `farm ARGV --json` prints."""
        return json.loads(self.run("farm", *argv, "--json", status=status))

    def report(self, name: str) -> Any:
        """What a step of the script left in its folder of reports."""
        return json.loads((self.folder / "reports" / name).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to release: a model's file, its shape ("" where the file says it), a name, its licence."""

    name: str
    model: Path
    shape: str
    licence: str = LICENCE


@dataclass(frozen=True, slots=True)
class Released:
    """What came of one model: seconds of each step, and by target the payloads' digests and how the self-test ran.

    `rebuilt` are the digests that the second worker got, `bundle` the folder that the consumer fetched.
    """

    name: str
    version: str
    seconds: Mapping[str, float]
    built: Mapping[str, str]
    rebuilt: Mapping[str, str]
    fetched: Mapping[str, str]
    self_tests: Mapping[str, str]
    verified: bool
    bundle: Path


@dataclass(frozen=True, slots=True)
class Run:
    """The machines of a run of the sequence: the farm, and a consumer that got the public key and nothing else.

    `second` are variables of the farm's second worker, which rebuilds.
    """

    farm: Machine
    consumer: Machine
    second: Mapping[str, str] = field(default_factory=dict)

    def release(self, wanted: Wanted, registry: ReleaseRegistry, targets: Sequence[str], **channel: str) -> Released:
        """All steps for a model. Raises AssertionError for the first that ends otherwise than with 0."""
        both = {"NAME": wanted.name, "REPOSITORY": f"{registry.host}/media/{wanted.name}"}
        given = {
            "MODEL": str(wanted.model),
            "SHAPE": wanted.shape,
            "MODEL_LICENCE": wanted.licence,
            "TARGETS": " ".join(targets),
        }
        seconds = {}
        for step in PRODUCER:
            more = self.second if step == "rebuild" else {}
            seconds[step] = self.farm.timed(SCRIPT, step, **both, **given, **channel, **more)
        version = self.farm.report("publish.json")["version"]
        for step in CONSUMER:
            seconds[step] = self.consumer.timed(SCRIPT, step, **both, KEY="release.pub", VERSION=version)
        return self._read(wanted.name, seconds)

    def _read(self, name: str, seconds: Mapping[str, float]) -> Released:
        (built,) = self.farm.report("build.json")["bundles"]
        (fetched,) = self.consumer.report("fetch.json")["bundles"]
        inside = self.consumer.document("inspect", fetched["path"])["targets"]
        tested = self.consumer.report("self-test.json")["targets"]
        return Released(
            name,
            self.farm.report("release.json")["version"],
            seconds,
            built["payloads"],
            {one["target"]: one["rebuilt"] for one in self.farm.report("rebuild.json")["rebuilt"]},
            {target: one["digest"] for target, one in inside.items()},
            {target: one["how"] for target, one in tested.items() if one.get("ran")},
            self.consumer.report("verify.json")["signature"] == "verified",
            self.consumer.folder / fetched["path"],
        )


def machines(folder: Path, image: Home, runner: str = "bubblewrap") -> Run:
    """A farm with a key, compiling in a sandbox, and a consumer; both run the same clean checkout."""
    farm = Machine(folder / "farm", checkout(folder / "source"), {"FARM_RUNNER": runner})
    pinned_image.lend(image, farm.home)
    share_scans(farm)
    farm.run("farm", "keys", "new")
    return Run(farm, _consumer(folder, farm))


def machines_of(folder: Path, product: Product, runner: str, second: str) -> Run:
    """As `machines`, with the state of a farm that has built already; its second worker compiles in another sandbox."""
    variables = {**product.environment, "FARM_HOME": str(product.home), "FARM_RUNNER": runner}
    farm = Machine(folder / "farm", checkout(folder / "source"), variables)
    share_scans(farm)
    return Run(farm, _consumer(folder, farm), {"FARM_RUNNER": second})


def _consumer(folder: Path, farm: Machine) -> Machine:
    consumer = Machine(folder / "consumer", farm.source)
    shutil.copyfile(farm.home / "keys" / "default.pub", consumer.folder / "release.pub")
    return consumer


def release_all(run: Run, registry: Path, names: Sequence[str], targets: Sequence[str]) -> list[Released]:
    """Real models, all steps of each, by the rules of the channel "stable", with a registry in a folder."""
    with release_registry.running(registry) as running:
        return [
            run.release(Wanted(name, models.fetch(name), models.small_shape(name)), running, targets, CHANNEL="stable")
            for name in names
        ]


def untestable(targets: Sequence[str]) -> list[str]:
    """Targets that nothing whatever can run here: this processor cannot, and nothing emulates one that can."""
    found = [target.load(name) for name in targets]
    return [one.name for one in found if not one.run.emulator and processor.missing_features(one)]


def share_scans(farm: Machine) -> None:
    """Have a farm keep its licence scans with those of all test farms, before its first scan."""
    SCANS.mkdir(parents=True, exist_ok=True)
    (farm.home / "cache").mkdir(parents=True, exist_ok=True)
    (farm.home / "cache" / gate.SCANS).symlink_to(SCANS)
