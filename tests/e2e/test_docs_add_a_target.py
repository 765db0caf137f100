"""docs/how-to/add-a-target.md, followed in a copy of the tree: a target more, and no test that lists them notices."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("containers", "docs", "farm", "kernelc", "kernelfarm", "runtime", "signing", "tests", "toolchains")
CONCERNED = (
    "tests/unit/test_docs_features.py",
    "tests/unit/test_farm_doctor_checks.py",
    "tests/unit/test_toolchains_devices.py",
    "tests/unit/test_toolchains_emulator.py",
    "tests/unit/test_toolchains_target.py",
)


@pytest.fixture
def seventh(tmp_path: Path) -> Path:
    """A copy of the tree with a seventh target, made by steps 1 to 3 of the page."""
    skipped = shutil.ignore_patterns("__pycache__", "build")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "README.md", tmp_path)
    folder = tmp_path / "toolchains" / "targets"
    text = (folder / "x86-64-v3.toml").read_text(encoding="utf-8")
    text = text.replace('name = "x86-64-v3"', 'name = "x86-64-znver3"', 1).replace(
        "preference = 300", "preference = 350"
    )
    (folder / "x86-64-znver3.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_seventh_target_is_one_file(seventh: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(seventh), "FARM_HOME": str(seventh / "home")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *CONCERNED]
    lists = ["tests/unit/test_farm_cli_main.py", "-k", "target or device or error or json"]

    done = subprocess.run([*command, *lists], cwd=seventh, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    listed = [sys.executable, "-m", "farm.cli.main", "targets"]
    shown = subprocess.run(listed, cwd=seventh, env=environment, capture_output=True, text=True, check=True).stdout
    assert "x86-64-znver3" in shown
