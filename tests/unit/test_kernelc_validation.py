"""Values in the memory of kernels, and how far off a right kernel may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelc.graph import Graph, Tensor
from kernelc.layout.buffer import Buffer
from kernelc.validation import machine
from kernelc.validation.images import from_image, pack, to_image, unpack
from kernelc.validation.machine import Argument, CrashedError, Machine, OutsideError
from kernelc.validation.meaning import meaning
from kernelfarm.errors import Code, FarmError
from tests.support.backend_graphs import Maker
from toolchains import processor, target, zig

HEAD = "typedef struct { float **operands; void *scratch; } context;\n"
BODIES = {
    "kf_twice": "while (begin < end) { c->operands[1][begin] = 2 * c->operands[0][begin]; begin++; }",
    "kf_outside": "if (begin == 0) c->operands[1][end + 3] = 1;",
    "kf_input": "c->operands[0][begin] = 7; c->operands[1][end - 1] = 1;",
    "kf_crash": "if (begin < end) __builtin_trap(); c->operands[1][0] = 0;",
}


@pytest.mark.parametrize("shape", [(1, 5, 2, 3), (1, 3, 5), (1, 5)])
def test_a_value_comes_back_from_a_buffer_with_halo(shape: tuple[int, ...]) -> None:
    tensor = Tensor("t", "f32", shape)
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    image = to_image(value, tensor)
    buffer = Buffer(*image.shape, 4, 1, 2)

    data = pack(image, buffer)
    found, halo = unpack(data, buffer)

    assert len(data) == buffer.bytes
    assert (from_image(found, tensor) == value).all()
    assert halo.shape[2] == 3 and not halo.any()
    assert np.isnan(np.frombuffer(data, np.float32)).sum() == 3 * image.shape[1] * buffer.pitch  # 8 - 5 lanes


def slack_of(graph: Graph, *values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    operands = {port.tensor: value for port, value in zip(graph.inputs, values, strict=True)}
    found = meaning(graph.nodes, operands | {name: weight.array for name, weight in graph.weights.items()})
    return found.value, found.slack


def test_a_sum_that_cancels_may_be_off_by_what_was_added_up() -> None:
    make = Maker()
    graph = make.finish(make.node("matmul", make.input(1, 2), make.constant([[1000.0], [-1000.0]])))

    value, slack = slack_of(graph, np.array([[1.0, 1.0]], np.float32))

    assert value == 0
    assert slack == pytest.approx(2000 * 2.0**-14)


def test_one_wrong_term_of_a_thousand_is_more_than_the_slack() -> None:
    make = Maker()
    graph = make.finish(make.node("matmul", make.input(1, 1000), make.constant(np.ones((1000, 1)))))

    _, slack = slack_of(graph, np.ones((1, 1000), np.float32))

    assert slack < 0.1


def test_nothing_is_known_of_a_quotient_by_a_sum_that_cancels() -> None:
    make = Maker()
    x, y = make.input(1, 2), make.input(1, 2)
    graph = make.finish(make.node("div", x, make.node("sub", x, y)))

    _, slack = slack_of(graph, np.array([[1.0, 3.0]], np.float32), np.array([[1.0, 1.0]], np.float32))

    assert np.isinf(slack[0, 0]) and slack[0, 1] < 0.01


def test_a_root_is_known_but_near_zero() -> None:
    make = Maker()
    x, y = make.input(1, 3), make.input(1, 3)
    graph = make.finish(make.node("sqrt", make.node("add", x, y)))

    value, slack = slack_of(graph, np.array([[1.0, 4.0, -9.0]], np.float32), np.array([[-1.0, 0.0, 0.0]], np.float32))

    assert np.isinf(slack[0, 0])
    assert value[0, 1] == 2 and slack[0, 1] < 0.001
    assert np.isnan(value[0, 2]) and slack[0, 2] == 0


def kernels(folder: Path) -> dict[str, Path]:
    """An object for each function of BODIES."""
    made = {}
    for name, body in BODIES.items():
        source = folder / f"{name}.c"
        signature = f"void {name}(const context *c, long long begin, long long end);\n"
        source.write_text(f"{HEAD}{signature}{signature[:-2]} {{ {body} }}\n", encoding="ascii")
        zig.compile_c(source, source.with_suffix(".o"), target.load("x86-64-v3"))
        made[name] = source.with_suffix(".o")
    return made


needs_avx2 = pytest.mark.skipif(not processor.runs(target.load("x86-64-v3")), reason="this processor has no AVX2")


@needs_avx2
def test_a_machine_runs_kernels_and_sees_what_they_should_not_do(tmp_path: Path) -> None:
    given = np.arange(8, dtype=np.float32).tobytes()
    arguments = [Argument(32, given), Argument(32, None)]
    with Machine(kernels(tmp_path), target.load("x86-64-v3"), tmp_path / "work") as running:
        found = np.frombuffer(running.call("kf_twice", arguments, [(4, 8), (0, 4)]), np.float32)
        assert found.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
        with pytest.raises(OutsideError, match="12 bytes behind its result"):
            running.call("kf_outside", arguments, [(0, 8)])
        with pytest.raises(OutsideError, match=r"byte [0-3] of its operand 0"):
            running.call("kf_input", arguments, [(0, 8)])
        with pytest.raises(CrashedError, match="signal"):
            running.call("kf_crash", arguments, [(0, 8)])


@needs_avx2
def test_a_runner_that_does_not_start_is_no_wrong_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runner.py").write_text("raise SystemExit('no memory left')", encoding="ascii")
    monkeypatch.setattr(machine, "_RUNNER", tmp_path / "runner.py")
    running = Machine(kernels(tmp_path), target.load("x86-64-v3"), tmp_path / "work")
    with running, pytest.raises(FarmError, match="no memory left") as error:
        running.call("kf_twice", [Argument(4, bytes(4)), Argument(4, None)], [(0, 1)])
    assert error.value.code is Code.TOOL_FAILED


def test_kernels_of_other_machines_are_compiled_for_this_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "runs", lambda wanted: wanted.name == "x86-64-v3")
    names = {name: machine.host_of(target.load(name)) for name in target.names()}
    assert {found.name for found in names.values() if found is not None} == {"x86-64-v3"}
    monkeypatch.setattr(processor, "runs", lambda _wanted: False)
    assert machine.host_of(target.load("x86-64-v3")) is None
