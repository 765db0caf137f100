"""The reference for `farm check`: onnxruntime on one thread, in a limited child process; and ONNX's test folders.

A model file is parsed by foreign code, so neither it nor a tensor file is ever opened in the farm's own process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farm.agreement import Array
from kernelfarm import canonical, child, files
from kernelfarm.errors import Code, FarmError

CPU_SECONDS = 300
WALL_SECONDS = 600.0
ADDRESS_SPACE = 8 << 30
FILE_SIZE = 1 << 30
_DATA_SET = re.compile(r"test_data_set_(\d+)")


@dataclass(frozen=True, slots=True)
class TestFolder:
    """ONNX's test layout: `model.onnx`, `test_data_set_N/{input,output}_N.pb`. `sets`: (input files, output files)."""

    model: Path
    sets: tuple[tuple[tuple[Path, ...], tuple[Path, ...]], ...]


def environment(home: Path) -> dict[str, str]:
    """The clean environment of a child that computes: one thread, plain locale, no search path."""
    return {
        "HOME": str(home),
        "LC_ALL": "C",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "",
        "TMPDIR": str(home),
        "TZ": "UTC",
    }


def run(
    model: Path, inputs: Sequence[str], outputs: Sequence[str], cases: Sequence[Mapping[str, Array]], work: Path
) -> list[dict[str, Array]]:
    """What onnxruntime answers, one mapping of outputs per case; `work` is an empty folder for the exchange.

    Raises `FarmError` REFERENCE_FAILED when it refuses the model or an input, or a coded error of the child's limits.
    """
    for case, feeds in enumerate(cases):
        for index, name in enumerate(inputs):
            np.save(work / f"in-{case}-{index}.npy", feeds[name], allow_pickle=False)
    request = {
        "do": "run",
        "model": str(model.absolute()),
        "inputs": list(inputs),
        "outputs": list(outputs),
        "cases": len(cases),
    }
    _call(request, work)
    return [
        {name: _float32(work / f"out-{case}-{index}.npy", name) for index, name in enumerate(outputs)}
        for case in range(len(cases))
    ]


def read_tensors(files: Sequence[Path], work: Path) -> list[Array]:
    """The float32 tensors of ONNX's .pb files, in the order given; raises `FarmError` CASE_INVALID for another type."""
    names = {str(path.absolute()): f"tensor-{index}.npy" for index, path in enumerate(files)}
    _call({"do": "read", "files": names}, work)
    return [_float32(work / names[str(path.absolute())], path.name) for path in files]


def test_folder(folder: Path) -> TestFolder:
    """The model and data sets of a folder in ONNX's test layout; `FarmError` CASE_INVALID names what is missing."""
    model = folder / "model.onnx"
    if not model.is_file():
        raise _no_case(folder, "it holds no model.onnx")
    found = {int(match[1]): path for path in folder.iterdir() if (match := _DATA_SET.fullmatch(path.name))}
    if not found:
        raise _no_case(folder, "it holds no test_data_set_0")
    sets = []
    for _number, path in sorted(found.items()):
        pair = (_numbered(path, "input"), _numbered(path, "output"))
        if not pair[1]:
            raise _no_case(path, "it holds no output_0.pb to compare with")
        sets.append(pair)
    return TestFolder(model, tuple(sets))


test_folder.__test__ = False  # type: ignore[attr-defined]  # pytest: the name is ONNX's, not a test


def _numbered(folder: Path, stem: str) -> tuple[Path, ...]:
    count = sum(1 for _ in folder.glob(f"{stem}_*.pb"))
    paths = tuple(folder / f"{stem}_{number}.pb" for number in range(count))
    for path in paths:
        if not path.is_file():
            raise _no_case(folder, f"{path.name} is missing, though there are {count} {stem} files")
    return paths


def _call(request: Mapping[str, Any], work: Path) -> None:
    log = work / "log"
    (work / "request.json").write_bytes(canonical.dumps(dict(request)))
    result = child.run_limited(
        [sys.executable, "-I", "-m", "farm.reference_child", str(work)],
        env=environment(work),
        cwd=work,
        cpu_s=CPU_SECONDS,
        wall_s=WALL_SECONDS,
        address_space=ADDRESS_SPACE,
        file_size=FILE_SIZE,
        log_path=log,
    )
    if result.timed_out:
        raise FarmError(Code.CHILD_TIMEOUT, f"the reference runtime ran past {WALL_SECONDS:.0f} s")
    if result.status != 0:
        raise FarmError(
            Code.REFERENCE_FAILED,
            "onnxruntime could not run the model" if request["do"] == "run" else "a tensor file could not be read",
            files.last_line(log),
            "Check the model and the shapes with onnxruntime itself.",
        )


def _float32(path: Path, name: str) -> Array:
    array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    if array.dtype != np.float32:
        raise FarmError(
            Code.CASE_INVALID, f"{name!r} is of type {array.dtype}", "only float32 tensors are compared so far"
        )
    return array


def _no_case(folder: Path, why: str) -> FarmError:
    return FarmError(
        Code.CASE_INVALID,
        f"the folder {folder.name!r} is not in ONNX's test layout",
        why,
        "It needs model.onnx and test_data_set_0/input_0.pb, output_0.pb and so on.",
        {"folder": str(folder)},
    )
