"""IREE as a benchmark's server: compiled for this processor at O3; one thread runs it in the caller, several as tasks.

It compiles for minutes: a compiled model is kept in the folder given, by what it was made of.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import serving
from serving import Array, Load, Loaded

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)
OPSET = "17"
"""The importer brings older models up to it: its own operators begin there."""


def load(wanted: Load) -> Loaded:
    """The model in the runtime, its inputs on its device."""
    from importlib.metadata import version

    import iree.runtime as rt

    compiled = _compiled(wanted, version("iree-base-compiler"))
    if wanted.threads > 1:
        rt.flags.parse_flags("--task_topology_group_count=" + str(wanted.threads))
    config = rt.Config("local-sync" if wanted.threads == 1 else "local-task")
    module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, str(compiled)), config)
    names = [name for name in module.vm_module.function_names if not name.startswith("__") and "$" not in name]
    function = module[names[0]]
    given = [rt.asdevicearray(config.device, array) for array in wanted.inputs.values()]
    answered: list[object] = [None]

    def run() -> None:
        answered[0] = function(*given)

    def outputs() -> list[Array]:
        found = answered[0]
        several = found if isinstance(found, (list, tuple)) else [found]
        return [np.asarray(one.to_host()) for one in several]  # type: ignore[attr-defined]

    return Loaded(version("iree-base-runtime"), run, outputs)


def _compiled(wanted: Load, version: str) -> Path:
    model = wanted.model.read_bytes()
    told = "\n".join((version, *FLAGS, OPSET, _processor())).encode()
    key = hashlib.sha256(told + b"\0" + model).hexdigest()
    place = wanted.folder / f"iree-{key[:32]}.vmfb"
    if place.is_file():
        return place
    programs = Path(sys.executable).parent
    text, made = place.with_suffix(".mlir"), place.with_suffix(f".{os.getpid()}")
    _call(programs / "iree-import-onnx", wanted.model, "-o", text, "--opset-version", OPSET, "--data-prop")
    _call(programs / "iree-compile", text, "-o", made, *FLAGS)
    text.unlink()
    made.rename(place)
    return place


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith("flags")), "")


def _call(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise RuntimeError(" ".join((told or done.stderr.splitlines() or ["no word"])[-1].split())[:300])


if __name__ == "__main__":
    serving.main(load)
