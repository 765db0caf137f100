"""The wheel: exactly the rooms at its top level, every source the child compiles, and a farm that starts from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["containers", "farm", "kernelc", "kernelfarm", "runtime", "sbom", "signing", "toolchains"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, so that the tree itself stays clean."""
    source = tmp_path_factory.mktemp("source")
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), str(source)],
        check=True,
        capture_output=True,
    )
    return next(out.glob("kernel_farm-*.whl"))


def test_the_wheels_roots_are_the_rooms(wheel: Path) -> None:
    roots = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert sorted(root for root in roots if not root.endswith(".dist-info")) == ROOMS


def test_the_wheel_carries_every_file_of_the_rooms(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert sorted(name for name in wanted - packed if not name.startswith("runtime/tests/")) == []


def test_the_farm_starts_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "import farm; print(farm.__path__[0]); from farm.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program, "targets"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "FARM_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith(str(tmp_path))
    assert "x86-64-v3" in ran.stdout
