"""A payload run as a device runs it: by its own media-run, and through the runtime library in this process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from farm import native
from farm.cases import TensorSpec
from farm.engine import MAX_THREADS, Engine, TensorInfo
from farm.native import NotRunnableError, Runnable
from kernelfarm.errors import Code, FarmError, Status
from tests.support import device

SHAPE = (1, device.N)
X, Y = TensorSpec("x", SHAPE), TensorSpec("y", SHAPE)
FED = np.frombuffer(device.INPUT, "<f4").reshape(SHAPE).copy()
EXPECTED = np.frombuffer(device.EXPECTED, "<f4").reshape(SHAPE)


def ready(folder: Path, payload: device.Tiny) -> Runnable:
    runtime = device.runtime()
    layout = device.write(folder / "layout", payload)
    return Runnable(runtime / "media-run", runtime / "libmedia_engine.so", layout, payload.target)


def work(folder: Path) -> Path:
    made = folder / "work"
    made.mkdir()
    return made


def test_media_run_answers_each_case(tmp_path: Path):
    answers = native.run(ready(tmp_path, device.tiny()), [X], [Y], [{"x": FED}, {"x": FED}], work(tmp_path))

    assert [np.array_equal(answer["y"], EXPECTED) for answer in answers] == [True, True]


def test_a_payload_folder_is_made_runnable_without_a_bundle(tmp_path: Path):
    tiny = device.tiny()
    folder = tmp_path / "payload"
    folder.mkdir()
    (folder / "kernels.so").write_bytes(tiny.kernels)
    (folder / "weights.bin").write_bytes(tiny.weights)
    (folder / "media.hdr").write_bytes(tiny.header().to_bytes())
    shutil.copy(device.runtime() / "media-run", folder)

    made = native.prepare(folder, tiny.target, tmp_path / "layout")

    (answer,) = native.run(made, [X], [Y], [{"x": FED}], work(tmp_path))
    assert np.array_equal(answer["y"], EXPECTED)


def test_what_this_processor_cannot_run_is_told_from_what_fails(tmp_path: Path):
    unknown_feature = 1 << 63
    other = ready(tmp_path, replace(device.tiny(), cpu_features=unknown_feature))

    with pytest.raises(NotRunnableError, match="cpu"):
        native.run(other, [X], [Y], [{"x": FED}], work(tmp_path))


def test_an_emulator_that_lacks_the_processor_is_not_the_model_s_fault(tmp_path: Path):
    emulator = tmp_path / "qemu-x86_64"
    emulator.write_text("#!/bin/sh\necho \"qemu-x86_64: unable to find CPU model '$2'\" >&2\nexit 1\n")
    emulator.chmod(0o755)
    other = replace(ready(tmp_path, device.tiny()), emulator=(str(emulator), "-cpu", "nonsense"))

    with pytest.raises(FarmError) as raised:
        native.run(other, [X], [Y], [{"x": FED}], work(tmp_path))

    assert (raised.value.code, raised.value.status) == (Code.TOOL_CHANGED, Status.ENVIRONMENT)
    assert "nonsense" in raised.value.why


def test_a_damaged_payload_is_a_coded_error_with_the_device_s_reason(tmp_path: Path):
    tiny = device.tiny()
    damaged = ready(tmp_path, tiny)
    device.blob(damaged.layout, tiny.weights).write_bytes(tiny.weights[:-1] + b"\1")

    with pytest.raises(FarmError) as raised:
        native.run(damaged, [X], [Y], [{"x": FED}], work(tmp_path))

    assert raised.value.code is Code.DEVICE_RUN_FAILED
    assert "digest" in raised.value.why


@pytest.mark.parametrize("threads", [1, 3])
def test_the_library_describes_its_tensors_and_computes_in_place(tmp_path: Path, threads: int):
    one = ready(tmp_path, device.tiny())
    out = np.zeros(SHAPE, np.float32)

    with Engine(one.library, one.layout, one.target, threads) as engine:
        assert engine.inputs == (TensorInfo("x", SHAPE),)
        assert engine.outputs == (TensorInfo("y", SHAPE),)
        engine.bind({"x": FED}, {"y": out})()

    assert np.array_equal(out, EXPECTED)


def test_the_library_refuses_an_unknown_target_too_many_threads_and_another_shape(tmp_path: Path):
    one = ready(tmp_path, device.tiny())

    with pytest.raises(FarmError) as raised:
        Engine(one.library, one.layout, "nothing")
    assert (raised.value.code, raised.value.detail) == (Code.ENGINE_FAILED, {"code": 15})
    with pytest.raises(FarmError) as raised:
        Engine(one.library, one.layout, one.target, MAX_THREADS + 1)
    assert (raised.value.code, raised.value.detail) == (Code.ENGINE_FAILED, {"code": 1})

    with Engine(one.library, one.layout, one.target) as engine, pytest.raises(FarmError) as raised:
        engine.bind({"x": FED[:, :-1]}, {"y": FED})
    assert raised.value.code is Code.CASE_INVALID
