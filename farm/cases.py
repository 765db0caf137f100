"""Inputs to compare on: seeded ones that are the same on every machine, or a user's own .npy files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farm.agreement import Array
from kernelfarm.errors import Code, FarmError


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name and static shape of a float32 input or output of a compiled model."""

    name: str
    shape: tuple[int, ...]


def specs(config: Mapping[str, Any], which: str) -> tuple[TensorSpec, ...]:
    """The "inputs" or "outputs" of a payload's config.json; raises `FarmError` CASE_INVALID for non-f32."""
    found = []
    for item in config[which]:
        if item["dtype"] != "f32":
            raise FarmError(
                Code.CASE_INVALID, f"{item['name']!r} is of type {item['dtype']}", "only f32 is compared so far"
            )
        found.append(TensorSpec(item["name"], tuple(item["shape"])))
    return tuple(found)


def seeded(inputs: Sequence[TensorSpec], *, seed: int, count: int) -> list[dict[str, Array]]:
    """`count` cases, uniform in [-1, 1): NumPy's PCG64 over (seed, case, index of the input), whose stream is fixed."""
    return [
        {spec.name: _uniform(spec.shape, (seed, case, index)) for index, spec in enumerate(inputs)}
        for case in range(count)
    ]


def _uniform(shape: tuple[int, ...], entropy: tuple[int, ...]) -> Array:
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
    return 2 * generator.random(shape, dtype=np.float32) - 1


def from_files(inputs: Sequence[TensorSpec], files: Mapping[str, Path]) -> dict[str, Array]:
    """One case out of .npy files, one for each input; `FarmError` CASE_INVALID names the input that does not fit."""
    known = {spec.name for spec in inputs}
    for name in sorted(set(files) ^ known):
        why = "the model has no such input" if name in files else "no file is given for it"
        raise FarmError(Code.CASE_INVALID, f"input {name!r} cannot be fed", why, f"Inputs: {', '.join(sorted(known))}.")
    return {spec.name: fitted(spec, _load(files[spec.name])) for spec in inputs}


def fitted(spec: TensorSpec, array: npt.NDArray[Any]) -> Array:
    """The array when it is float32 and of the tensor's shape; raises `FarmError` CASE_INVALID otherwise."""
    if array.dtype != np.float32 or array.shape != spec.shape:
        found = f"{array.dtype} {list(array.shape)}"
        raise FarmError(
            Code.CASE_INVALID, f"{spec.name!r} does not fit", f"{found} instead of float32 {list(spec.shape)}"
        )
    return np.ascontiguousarray(array)


def _load(path: Path) -> npt.NDArray[Any]:
    try:
        loaded: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError as reason:
        raise FarmError(Code.FILE_MISSING, f"there is no file {path}") from reason
    except (OSError, ValueError) as reason:
        raise FarmError(Code.CASE_INVALID, f"{path} is not a .npy file", str(reason)) from reason
    return loaded
