"""The real image: the same digest from every build, the ID that Docker gives it, the same payloads from its tools."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from containers import bubblewrap, image
from containers.bubblewrap import BubblewrapRunner
from containers.image import Image, code, verify
from containers.process import ProcessRunner
from kernelfarm import canonical
from kernelfarm.errors import FarmError
from kernelfarm.paths import Home
from tests.support import graphs, onnx_files, services
from tests.support.docker_engine import DockerEngine
from toolchains import target, tools

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]
LARGEST = 700_000_000
BUILD = """
    import os, sys
    from containers import image
    from containers.image import pins
    from containers.image.pins import Pins
    from kernelfarm.paths import Home
    from pathlib import Path

    os.umask(0o077)
    own = pins.load()
    lock = Pins(own.packages[::-1], own.stand_ins[::-1])
    print(image.ensure(Home(Path(sys.argv[1])).create(), lock=lock).digest)
"""


@pytest.fixture
def compile_image(pinned_image: Home) -> Image:
    return image.require(pinned_image)


def _build_elsewhere(home: Path) -> str:
    """The digest that another process finds: other time zone, locale, umask, folder and order of the lock."""
    environment = {**os.environ, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    argv = [sys.executable, "-c", textwrap.dedent(BUILD), str(home)]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_as_small_as_it_is_said_to_be_and_verifies(compile_image: Image) -> None:
    assert compile_image.unpacked <= LARGEST
    verify.verify(compile_image)


def test_its_tools_are_those_that_the_recipe_key_names(compile_image: Image) -> None:
    assert compile_image.tools() == tools.tool_identities()


def test_a_build_in_another_time_zone_with_the_lock_backwards_is_the_same(pinned_image: Home, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "store").symlink_to(pinned_image.store)  # the packages alone are shared

    assert _build_elsewhere(tmp_path / "home") == image.require(pinned_image).digest


def test_a_build_with_an_empty_store_is_the_same(compile_image: Image, tmp_path: Path) -> None:
    assert _build_elsewhere(tmp_path / "home") == compile_image.digest


def test_docker_gives_it_the_id_that_was_foretold(compile_image: Image, docker_engine: DockerEngine) -> None:
    client = docker_engine.client()
    client.api.timeout = 600
    try:
        with compile_image.archive.open("rb") as stream:
            (loaded,) = client.images.load(stream)
        said = client.containers.run(
            compile_image.docker_id,
            [compile_image.python, "-c", "import mlir.ir, numpy, os; print(numpy.__version__, os.getuid())"],
            network_mode="none",
            read_only=True,
            remove=True,
        )
    finally:
        client.close()

    assert loaded.id == compile_image.docker_id
    assert said == b"2.4.6 65534\n"


@pytest.mark.parametrize("name", target.names())
def test_its_tools_give_the_payload_that_the_host_gives(pinned_image: Home, tmp_path: Path, name: str) -> None:
    sealed = BubblewrapRunner(image.require(pinned_image), code.unpacked(pinned_image).folder)
    (tmp_path / "probe").mkdir()
    try:
        bubblewrap.require_ready(sealed, tmp_path / "probe")
    except FarmError as reason:
        services.missing(str(reason))
    found = []
    for runner in (sealed, ProcessRunner()):
        scratch = tmp_path / runner.name
        (scratch / "in").mkdir(parents=True)
        onnx_files.scrub(graphs.tiny(scratch / "in" / "model.onnx"))
        request = {
            "schema": "compile-request/1",
            "model": "model.onnx",
            "model_name": "small",
            "shapes": {},
            "target": target.load(name).to_json(),
            "jobs": 2,
            "rules": None,
        }
        (scratch / "in" / "request.json").write_bytes(canonical.dumps(request))
        accepted, _ended = runner.compile_in(scratch, log_path=tmp_path / f"{runner.name}.log")
        found.append(accepted.files)

    assert found[0] == found[1]
