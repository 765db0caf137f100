"""`make bench-models`: architectures with random weights, written by torch in an environment of its own.

    python -m benchmarks.exported [NAME...]     into build/models; says of each file whether it is the recorded one

A file that differs from its record is used all the same, and said to: another version of an exporter may order nodes
otherwise. Exits 3 where the environment is not there, 1 when a file differs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers.catalogue import ENVIRONMENTS
from kernelfarm import digest
from kernelfarm.errors import Code, FarmError
from tests.support.models import CACHE, PackagedModel

EXPORTER = Path(__file__).parent / "peers" / "export_models.py"


def _model(name: str, shape: str, size: int, sha256: str) -> PackagedModel:
    return PackagedModel(name, "", f"{name}.onnx", size, f"sha256:{sha256}", shape)


EXPORTED: Mapping[str, PackagedModel] = {
    one.name: one
    for one in (
        _model(
            "mobilenetv3_small",
            "1x3x224x224",
            10178709,
            "03afe17c95eab249d12d73723037a8634b1b5e4189c0c41b0c04124a7200b64a",
        ),
        _model(
            "mobilenetv3_large",
            "1x3x224x224",
            21919271,
            "10eeb6674b0105fd6a393bc0e4332e1369cded85659983d92a78cebb2ef7cb77",
        ),
        _model("espcn_x3", "1x3x180x320", 125529, "c27fc944a1e5e848036c4f43a3a3ba865a9cdedfa22bf77bf9603ddf2ff98206"),
        _model("srvgg_x4", "1x3x90x160", 2492851, "97d7aa406fe49d1255d4bb9db018c50079e6d222bb5ec476330f7a0630c5bc76"),
        _model(
            "rrdb_small_x2", "1x3x64x64", 3470840, "16d76654a6a169e9dd8c4df10172e419319ae03e0298ff41bbc70f880d0c997a"
        ),
        _model(
            "lraspp_mobilenetv3",
            "1x3x224x224",
            12882076,
            "39111b58c186eb113eef850f6863d2390ac40598c251dfecce41c829e285a28f",
        ),
    )
}
"""What `make bench-models` writes: size and digest as they were here, the shape that the file declares."""


def path_of(model: PackagedModel) -> Path:
    """Where its file lies, written or not."""
    return CACHE / model.file_name


def fetch(name: str) -> Path:
    """Path of the file; raises `FarmError` FILE_MISSING before `make bench-models` wrote it."""
    path = path_of(EXPORTED[name])
    if not path.is_file():
        raise FarmError(Code.FILE_MISSING, f"there is no {path.name}", "torch writes it", "Run `make bench-models`.")
    return path


def main(names: list[str]) -> int:
    """Write the files named, or all, and compare each with its record."""
    python = ENVIRONMENTS / "export" / "bin" / "python"
    if unknown := sorted(set(names) - set(EXPORTED)):
        print(f"no such model: {', '.join(unknown)}; there are {', '.join(EXPORTED)}", file=sys.stderr)
        return 2
    if not python.is_file():
        print("build/peers/export is not there: run `make bench-models`", file=sys.stderr)
        return 3
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([python, "-s", "-E", "-W", "ignore", EXPORTER, CACHE, *names], check=False)
    if done.returncode:
        return 3
    status = 0
    for name in names or EXPORTED:
        model = EXPORTED[name]
        same = digest.of_file(path_of(model)) == model.digest
        print(f"{name:<20} {model.shape:<14} {'as recorded' if same else 'NOT as recorded'}")
        status |= not same
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
