"""Keys of the real farm over a copy of its sources: every input edited changes the recipe key, nothing else does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import support
from tests.support import graphs, models

ROOMS = ("containers", "farm", "kernelc", "kernelfarm", "runtime", "sbom", "signing", "toolchains")
SHAPE = "1x3x8x8"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the sources and a model, both to be edited."""

    root: Path
    model: Path

    def keys(
        self, *, target: str = "x86-64-v3", shape: str = SHAPE, home: str = "home", **environment: str
    ) -> dict[str, str]:
        """What this farm calls the model for the target."""
        script = Path(support.__file__).with_name("show_keys.py")
        done = subprocess.run(
            [sys.executable, "-s", "-P", str(script), str(self.model), target, shape],
            env={"PYTHONPATH": str(self.root), "FARM_HOME": str(self.root.parent / home), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, str] = json.loads(done.stdout)
        assert Path(found.pop("farm")) == self.root / "farm"  # the copy answered, not the installed farm
        return found

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        """Rewrite a file of the sources."""
        path = self.root / name
        before = path.read_text(encoding="utf-8")
        path.write_text(change(before), encoding="utf-8")
        assert path.read_text(encoding="utf-8") != before


def copy(folder: Path) -> Copy:
    root = folder / "sources"
    for room in ROOMS:
        shutil.copytree(models.ROOT / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    return Copy(root, graphs.tiny(folder / "net.onnx", side="side"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return copy(tmp_path_factory.mktemp("original")).keys()


def comment(text: str) -> str:
    return text + "\n# another line\n"


def c_comment(text: str) -> str:
    return text + "\n/* another line */\n"


def more_cache(text: str) -> str:
    return text.replace("l2_bytes = 262144", "l2_bytes = 524288")


EDITS = {
    "a line of the compiler": ("kernelc/pipeline.py", comment),
    "a line deep in the compiler": ("kernelc/lowering/llvm.py", comment),
    "a line of what rooms share": ("kernelfarm/canonical.py", comment),
    "a line of the tool wrappers": ("toolchains/zig.py", comment),
    "a line of the runtime": ("runtime/src/run.c", c_comment),
    "a line of media-run": ("runtime/program/media_run.c", c_comment),
    "a line of the public header": ("runtime/include/media_engine.h", c_comment),
    "a line of what writes the bill of materials": ("sbom/payload.py", comment),
    "what a publisher declares": ("sbom/declared.toml", comment),
    "a number of the target": ("toolchains/targets/x86-64-v3.toml", more_cache),
}


@pytest.mark.parametrize(("name", "change"), EDITS.values(), ids=EDITS)
def test_an_edited_source_changes_both_keys(
    original: dict[str, str], tmp_path: Path, name: str, change: Callable[[str], str]
):
    it = copy(tmp_path)
    it.edit(name, change)

    assert_changed(original, it.keys())


def test_another_target_shape_or_weight_changes_both_keys(original: dict[str, str], tmp_path: Path):
    it = copy(tmp_path)

    assert_changed(original, it.keys(target="x86-64-v4"))
    assert_changed(original, it.keys(shape="1x3x8x16"))
    graphs.tiny(it.model, side="side", seed=2)
    assert_changed(original, it.keys())


def assert_changed(before: dict[str, str], after: dict[str, str]) -> None:
    assert after["recipe"] != before["recipe"]
    assert after["execution"] != before["execution"]


def test_nothing_else_changes_a_key(original: dict[str, str], tmp_path: Path):
    it = copy(tmp_path / "another place, ünïcode 目录")
    it.edit("farm/check.py", comment)
    it.edit("signing/verify.py", comment)
    it.edit("sbom/read.py", comment)
    it.edit("containers/process.py", comment)
    it.edit("toolchains/targets/x86-64-v3.toml", comment)
    it.edit("toolchains/targets/x86-64-v4.toml", lambda text: text.replace("l2_bytes = 1048576", "l2_bytes = 2097152"))
    (it.root / "README.md").write_text("a file beside the rooms")
    for path in it.root.rglob("*.py"):
        os.utime(path, (1, 1))
    os.utime(it.model, (1, 1))
    it.model.chmod(0o600)

    keys = it.keys(home="other state", TZ="Asia/Kathmandu", LANG="tr_TR.UTF-8", HOME="/nonexistent", PYTHONHASHSEED="3")

    assert keys == original


def test_byte_code_that_python_leaves_in_the_sources_changes_no_key(original: dict[str, str], tmp_path: Path):
    it = copy(tmp_path)
    first = it.keys()
    assert list(it.root.rglob("*.pyc"))

    assert first == it.keys() == original
