"""Which payload older x86-64 processors take, in qemu's user mode."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from tests.support import device, emulated
from tests.support.device import Tiny
from toolchains import features, target

V3, V4 = target.load("x86-64-v3"), target.load("x86-64-v4")


def media_run(cpu: str, bundle: Path) -> subprocess.CompletedProcess[str]:
    return emulated.run(V3, device.runtime() / "media-run", bundle, "--list", cpu=cpu)


def payload(name: str, kernels: bytes) -> Tiny:
    goal = target.load(name)
    mask = features.mask(goal.machine, goal.cpu.required)
    return replace(device.tiny(), kernels=kernels, target=name, cpu_features=mask, preference=goal.preference)


def test_v4_alone_is_refused_on_nehalem_before_its_kernels_are_looked_at(tmp_path: Path) -> None:
    answer = media_run("Nehalem", device.write(tmp_path / "bundle", payload("x86-64-v4", b"no kernels at all")))

    assert answer.returncode == 4
    assert "E14 cpu: this processor lacks what x86-64-v4 needs: movbe f16c fma avx avx2" in answer.stderr
    assert "avx512f" in answer.stderr


def test_of_both_haswell_takes_v3(tmp_path: Path) -> None:
    kernels = device.tiny().kernels
    bundle = device.write(tmp_path / "bundle", payload("x86-64-v4", kernels), payload("x86-64-v3", kernels))

    answer = media_run("Haswell", bundle)

    assert answer.returncode == 0
    assert answer.stdout.startswith("target x86-64-v3\n")
