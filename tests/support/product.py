"""The product as a user has it: `farm` in a process of its own, with its own state; and bundles that tests share."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from kernelfarm.errors import Code
from tests.support import graphs, models

TARGETS = ("x86-64-v3", "x86-64-v4")
WALL_SECONDS = 280.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended: exit status, the JSON document on standard output (None without one), standard error."""

    status: int
    document: Any
    stderr: str

    @property
    def codes(self) -> list[Code]:
        """The codes of all errors in the document, in its order."""
        return [Code.from_number(error["code"]) for error in self.errors]

    @property
    def errors(self) -> list[Any]:
        """The errors in the document: that of the command, or those of a build."""
        if not isinstance(self.document, dict):
            return []
        return [self.document["error"]] if "error" in self.document else list(self.document.get("errors", []))


@dataclass(frozen=True, slots=True)
class Product:
    """The command line with its state in `home`."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    wall_s: float = WALL_SECONDS

    def farm(self, *arguments: str | Path, cwd: Path | None = None, prefix: tuple[str, ...] = ()) -> Done:
        """Run `farm ARGUMENTS --json`; `prefix` is a command in front, for example a wrapper in a namespace."""
        done = subprocess.run(
            [*prefix, *command(*arguments)],
            cwd=cwd or models.ROOT,
            env={**os.environ, "FARM_HOME": str(self.home), **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.wall_s,
            check=False,
        )
        return Done(done.returncode, _document(done.stdout), done.stderr)

    def started(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """`farm ARGUMENTS --json`, running."""
        environment = {**os.environ, "FARM_HOME": str(self.home), **self.environment}
        pipe = subprocess.PIPE
        return subprocess.Popen(command(*arguments), env=environment, stdout=pipe, stderr=pipe, text=True)

    @property
    def public_key(self) -> Path:
        """The public key of the default pair."""
        return self.home / "keys" / "default.pub"

    def with_key(self) -> Product:
        """This product, with a signing key."""
        if not self.public_key.exists():
            self.must("keys", "new")
        return self

    def must(self, *arguments: str | Path) -> Any:
        """The document of a command that has to succeed."""
        done = self.farm(*arguments)
        assert done.status == 0, f"farm {' '.join(map(str, arguments))}: {done.status}\n{done.document}\n{done.stderr}"
        return done.document


def command(*arguments: str | Path) -> list[str]:
    """The argument list of `farm ARGUMENTS --json`."""
    return [sys.executable, "-m", "farm.cli.main", *map(str, arguments), "--json"]


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Built:
    """A bundle that tests share and must not change, the state that made it, and the model."""

    product: Product
    bundle: Path
    model: Path
    shape: str
    document: Any

    @property
    def digest(self) -> str:
        """The bundle's digest."""
        return str(self.document["bundles"][0]["digest"])

    def payload(self, target: str) -> str:
        """Digest of the payload for a target."""
        return str(self.document["bundles"][0]["payloads"][target])

    def copy(self, folder: Path) -> Path:
        """A copy of the bundle that a test may damage."""
        shutil.copytree(self.bundle, folder)
        return folder


def tiny(shared: Path) -> Built:
    """The bundle of `graphs.tiny` for both targets; `shared` is a folder that all test processes have in common."""
    return _built(shared / "tiny", lambda folder: graphs.tiny(folder / "tiny.onnx", side="side"), "1x3x8x8")


def text_direction(shared: Path) -> Built:
    """The bundle of the real model for both targets."""
    model = models.find("text-direction")
    return _built(shared / model.name, lambda _folder: models.fetch(model.name), model.shape)


def _built(folder: Path, model: Callable[[Path], Path], shape: str) -> Built:
    """Build once for all processes; the first one does it, the others wait and read the document."""
    folder.mkdir(parents=True, exist_ok=True)
    product = Product(folder / "home")
    document, bundles = folder / "build.json", folder / "bundles"
    with FileLock(folder / ".lock"):
        if document.exists():
            built = json.loads(document.read_text())
            path = Path(built["model_path"])
        else:
            path = model(folder)
            words = [word for target in TARGETS for word in ("-t", target)]
            built = product.with_key().must("build", path, *words, "--shape", shape, "--out", bundles)
            built["model_path"] = str(path)
            document.write_text(json.dumps(built))
    return Built(product, Path(built["bundles"][0]["path"]), path, shape, built)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that nobody may write in, root included where the file system can (the immutable flag is not used)."""
    mode = folder.stat().st_mode
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(mode)
