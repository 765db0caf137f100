"""Which runner a target gets here, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelfarm.errors import Code, FarmError, Status
from toolchains import emulator, target
from toolchains.emulator import Kind

V3, V4, AARCH64 = (target.load(name) for name in ("x86-64-v3", "x86-64-v4", "aarch64"))
AVX2 = frozenset(
    ("pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "f16c", "fma", "movbe", "avx2", "bmi1", "bmi2", "abm")
)
"""Names of /proc/cpuinfo for what x86-64-v3 requires."""


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """build/tools with one emulator; the system has none."""
    monkeypatch.setattr(emulator, "tools_dir", lambda: tmp_path)
    monkeypatch.setattr(emulator.shutil, "which", lambda *_, **__: None)
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/qemu-aarch64-static").touch()
    return tmp_path


def test_a_processor_with_the_features_runs_natively() -> None:
    assert emulator.runner(V3, AVX2) == emulator.Runner((), Kind.NATIVE, "")


def test_another_machine_is_emulated_with_the_targets_cpu(unpacked: Path) -> None:
    found = emulator.runner(AARCH64)

    assert found.argv_prefix == (str(unpacked / "usr/bin/qemu-aarch64-static"), "-cpu", "cortex-a76")
    assert (found.kind, found.reason) == (Kind.EMULATED, "this processor lacks everything of aarch64")


@pytest.mark.usefixtures("unpacked")
def test_avx512_is_not_run_without_it_since_no_emulator_has_it() -> None:
    found = emulator.runner(V4, AVX2)

    assert (found.argv_prefix, found.kind) == ((), Kind.UNAVAILABLE)
    assert "lacks avx512f" in found.reason
    assert "no emulator knows x86-64-v4" in found.reason


@pytest.mark.usefixtures("unpacked")
def test_a_missing_emulator_is_said_with_its_name() -> None:
    found = emulator.runner(V3, AVX2 - {"fma"})

    assert found.kind is Kind.UNAVAILABLE
    assert found.reason == "this processor lacks fma, and qemu-x86_64-static is missing: run `make tools`"


def test_what_must_run_is_an_environment_error_where_it_cannot(unpacked: Path) -> None:
    (unpacked / "usr/bin/qemu-aarch64-static").unlink()

    with pytest.raises(FarmError) as caught:
        emulator.require(AARCH64)

    assert (caught.value.code, caught.value.status) == (Code.NOT_RUNNABLE_HERE, Status.ENVIRONMENT)


def test_unpacked_libraries_are_found_by_unpacked_programs(unpacked: Path) -> None:
    assert emulator.libraries() == {}
    (unpacked / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    assert emulator.libraries() == {"LD_LIBRARY_PATH": str(unpacked / "usr/lib/x86_64-linux-gnu")}
