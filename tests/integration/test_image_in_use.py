"""An image that is built again, or collected, under a compile: the compile ends well, and then the old one goes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from containers.image import Image, build
from containers.image.build import Built
from containers.result import Accepted
from farm import gc
from farm.gc import Rules
from farm.scheduler import Session
from kernelfarm import canonical, files
from kernelfarm.digest import Digest
from tests.support import farms, sandboxes
from tests.support.sandboxes import GOOD, PREPARE, SMALL, Sandbox

pytestmark = pytest.mark.services

NOW = Rules(grace_s=0.0)
WAIT = (
    PREPARE
    + """
import time
pathlib.Path("out/started").touch()
while not pathlib.Path("in/go").exists():
    time.sleep(0.02)
pathlib.Path("out/started").unlink()
import decimal, html.parser, xml.dom.minidom  # files of the root that were not opened so far
"""
)


@dataclass(slots=True)
class Compile:
    """A compile in a thread, which waits inside its sandbox until it is told to end."""

    scratch: Path
    thread: threading.Thread
    found: list[Accepted | BaseException]

    def ended(self) -> Accepted | BaseException:
        (self.scratch / "in" / "go").touch()
        self.thread.join()
        return self.found[0]


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Session]:
    with farms.session(tmp_path / "farm") as made:
        yield made


def copy_of_small_image(farm: Session, name: str) -> Path:
    """The small image as one of an older farm."""
    small = sandboxes.image()
    place = farm.settings.home.root / "image" / name
    place.parent.mkdir(exist_ok=True)
    shutil.copytree(small.rootfs, place / build.ROOT, symlinks=True, copy_function=os.link)
    os.link(small.archive, place / build.ARCHIVE)
    built = Built(small.digest, Digest(small.docker_id), ())
    (place / build.DOCUMENT).write_bytes(canonical.encode(built))
    return place


def started(sandbox: Sandbox, place: Path) -> Compile:
    built = canonical.decode(Built, (place / build.DOCUMENT).read_bytes())
    python = sandbox.runner.image.python
    root, archive = place / build.ROOT, place / build.ARCHIVE
    image = Image(built.digest, built.docker_id, archive, root, python, (), place / build.BYTECODE)
    runner = replace(sandbox.runner, image=image, program=(python, "-s", "-P", "-c", WAIT + GOOD))
    scratch = sandbox.home / "scratch"
    scratch.mkdir()
    sandboxes.fill(scratch / "in")
    found: list[Accepted | BaseException] = []

    def work() -> None:
        try:
            found.append(runner.compile_in(scratch, log_path=scratch / "log", limits=SMALL)[0])
        except BaseException as reason:  # noqa: BLE001 - the test's own thread shows it
            found.append(reason)

    thread = threading.Thread(target=work)
    thread.start()
    farms.eventually(lambda: (scratch / "out" / "started").exists() or bool(found))
    return Compile(scratch, thread, found)


def test_an_image_is_built_again_and_collected_under_a_compile(sandbox: Sandbox, farm: Session) -> None:
    place = copy_of_small_image(farm, "a" * 16)
    compile_ = started(sandbox, place)
    # It is replaced, as by `farm image build --again`, and then the farm is collected, twice
    with files.temp_folder(place.parent) as work:
        again = copy_of_small_image(farm, "b" * 16)
        work.rmdir()
        again.rename(work)
        files.replace(work, place)
    for _ in range(2):
        gc.collect(farm, NOW)
    assert isinstance(compile_.ended(), Accepted)
    assert [path.name for path in place.parent.iterdir() if path.name != "code"] != []
    # Nobody uses it any more
    gc.collect(farm, NOW)
    assert [path.name for path in place.parent.iterdir() if path.name != "code"] == []


def test_a_superseded_image_stays_while_a_compile_is_in_it(sandbox: Sandbox, farm: Session) -> None:
    used, unused = (copy_of_small_image(farm, letter * 16) for letter in "ab")
    compile_ = started(sandbox, used)
    assert gc.collect(farm, NOW).images == 1
    assert (used.exists(), unused.exists()) == (True, False)
    assert isinstance(compile_.ended(), Accepted)
    assert gc.collect(farm, NOW).images == 1
    assert not used.exists()
