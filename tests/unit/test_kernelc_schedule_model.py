"""The performance model: whole numbers, one choice of tiles with `cost`, and ranks that recorded measurements confirm.

The records lie in benchmarks/model. Weights are fitted on the microbenchmarks alone; the networks are what they are
judged on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks import fit_model, model_fit
from benchmarks.fit_model import MICRO, NETWORKS, Record
from kernelc.layout.buffer import Buffer
from kernelc.layout.window import Taps
from kernelc.lowering import contraction
from kernelc.lowering.program import machine_of
from kernelc.schedule import model
from kernelc.schedule.classes import CLASSES, class_of
from kernelc.schedule.cost import ContractionTile, Machine, contraction_cost, fits, held, plain_cost, step_cost
from kernelc.schedule.work import Task, Work
from toolchains import target

AVX512 = Machine(lanes=16, registers=32, l2_bytes=1 << 20, broadcast="memory", l1_bytes=32768)
MEASURED = ("x86-64-v3", "x86-64-v4")


@cache
def networks(name: str) -> list[Record]:
    """Records of the pinned models on a target."""
    return [record for record in fit_model.read(NETWORKS) if record.target == name]


def ranked(records: list[Record]) -> float:
    return model_fit.spearman([one.predicted() for one in records], [one.half_cycles for one in records])


@pytest.mark.parametrize("name", MEASURED)
def test_it_ranks_the_kernels_of_networks_that_it_was_not_fitted_on(name: str):
    records = networks(name)

    assert len(records) > 400
    assert ranked(records) >= 0.95
    assert model_fit.median_error([one.predicted() for one in records], [one.half_cycles for one in records]) <= 0.25


@pytest.mark.parametrize("name", MEASURED)
def test_it_ranks_the_kernels_of_each_network(name: str):
    for graph in sorted({record.graph for record in networks(name)}):
        assert ranked([record for record in networks(name) if record.graph == graph]) >= 0.85, graph


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("kind", ["conv kxk", "conv 1x1", "depthwise"])
def test_it_ranks_within_the_classes_that_take_most_time(name: str, kind: str):
    assert ranked([record for record in networks(name) if record.kind == kind]) >= 0.9


def test_no_network_is_among_what_it_was_fitted_on():
    graphs = {record.graph for record in fit_model.read(MICRO)}

    assert len(graphs) > 80
    assert not graphs & {record.graph for record in fit_model.read(NETWORKS)}


def test_the_weights_in_the_repository_are_the_fit_of_the_records_in_it():
    fitted = fit_model.fit(fit_model.read(MICRO))

    for name, kinds in fitted.items():
        for kind, weights in kinds.items():
            kept = model.weights_of(name, kind)
            for feature, value in weights.items():
                assert abs(kept[feature] - value) <= 2, f"{name} {kind} {feature}: fit again"


def test_all_is_in_whole_numbers():
    for one in networks("x86-64-v4")[:50]:
        cost = model.cost(machine_of(target.load(one.target)), one.target, one.kind, one.work)
        assert all(isinstance(value, int) for value in (cost.half_cycles, cost.arithmetic, cost.memory, cost.registers))
    assert all(isinstance(value, int) for kind in CLASSES for value in model.weights_of("x86-64-v3", kind).values())


def test_steps_of_a_reduction_cost_what_the_choice_of_tiles_counts():
    def core(blocks: int, columns: int) -> int:
        return model.features(AVX512, Work(((Task("reduce", blocks, columns, 16), 576),), (64, 64))).core

    for blocks, columns in ((4, 6), (2, 10), (1, 16), (1, 1)):
        assert core(blocks, columns) == contraction_cost(AVX512, 576, 0, blocks, columns) - 4 * blocks * columns - 40


def test_steps_with_channels_apart_cost_what_the_choice_of_their_tiles_counts():
    x, y = Buffer(24, 1, 64, 1), Buffer(4, 1, 64, 1)
    taps, tile = Taps(1, 1, 1, 1, 1, 1, 0, 0, 1, 1), ContractionTile(4, 64, 1, 64)

    kernel = contraction.lower(contraction.Contraction(x, y, taps, False, (), tile.blocks, tile.columns))

    whole = plain_cost(AVX512, 24, 0, 4, tile)
    assert model.features(AVX512, kernel.work).core == whole - 4 * 4 * 4 - 40
    assert {model.registers(AVX512, task) for task, _ in kernel.work.tasks} == {0, held(AVX512, 4, 4)}


def test_blocks_wider_than_a_vector_cost_all_vectors_that_they_take():
    work = Work(((Task("reduce", 2, 3, 16), 576),), (64, 64))

    core = model.features(AVX512.blocked(8), work).core

    assert core == 576 * step_cost(AVX512.blocked(8), 4, 3)


def test_a_target_that_was_never_measured_has_the_analytic_weights():
    work = Work(((Task("reduce", 1, 4, 4), 100), (Task("tile", 1, 4, 4), 2)), (64, 64, 64))

    found = model.cost(machine_of(target.load("hexagon-v67")), "hexagon-v67", "conv 1x1", work)

    assert model.weights_of("hexagon-v67", "conv 1x1") == model.weights_of("riscv64", "pool")
    assert found.arithmetic == 1600  # half cycles: sixteen multiply-adds a step, two per cycle


def test_what_does_not_fit_a_cache_is_memory():
    def memory(size: int) -> int:
        return model.cost(AVX512, "x86-64-v4", "elementwise", Work(((Task("load", lanes=16), 9),), (size, size))).memory

    assert memory(8 << 10) == 0
    assert 0 < memory(200 << 10) < memory(4 << 20) / 20


def test_weights_of_a_tile_come_again_for_each_tile_where_they_fill_the_first_cache():
    def near(channels: int) -> int:
        steps = 10 * channels  # ten tiles of 4 blocks x 6 columns
        work = Work(((Task("reduce", 4, 6, 16), steps), (Task("tile", 4, 6, 16), 10)), (8, 8))
        return model.features(AVX512, work).near

    assert near(60) == 0  # 4 blocks * 16 lanes * 60 channels * 4 bytes: 15 KiB
    assert near(128) == 10 * 128 * 4  # 32 KiB: four lines a step


def test_registers_of_a_tile_are_those_that_the_choice_prunes_by():
    for blocks, columns in ((4, 6), (6, 4), (1, 16), (2, 10), (4, 7), (3, 8)):
        held = model.registers(AVX512, Task("reduce", blocks, columns, 16))
        assert fits(AVX512, blocks, columns) is (held <= AVX512.registers)
    assert model.registers(AVX512, Task("multiply", 1, 14, 16)) == 16
    assert model.registers(AVX512, Task("load", lanes=16)) == 0


@pytest.mark.parametrize("name", MEASURED)
def test_no_tile_of_the_pinned_models_holds_more_registers_than_the_target_has(name: str):
    machine = machine_of(target.load(name))
    for record in networks(name):
        cost = model.cost(machine, name, record.kind, record.work)
        assert 0 <= cost.registers <= machine.registers, f"{record.graph} {record.name}"


def test_bound_says_what_takes_most():
    cost = model.Cost(half_cycles=100, arithmetic=60, memory=20, registers=0)

    assert cost.bound == "compute"
    assert replace(cost, memory=70).bound == "memory"
    assert replace(cost, half_cycles=200).bound == "overhead"


def test_classes_follow_operator_and_weights():
    pixels = (2, 8, 8, 16)

    assert class_of("conv", (pixels, (2, 3, 3, 32, 16), pixels)) == "conv kxk"
    assert class_of("conv", (pixels, (2, 1, 1, 32, 16), pixels)) == "conv 1x1"
    assert class_of("conv", (pixels, (2, 3, 3, 16), pixels)) == "depthwise"
    assert class_of("matmul", (pixels, (2, 1, 1, 32, 16), pixels)) == "gemm"
    assert class_of("matmul", (pixels, pixels, pixels)) == "product"
    assert {class_of(kind, (pixels, pixels)) for kind in ("add", "hard_swish")} == {"elementwise"}
    assert {class_of(kind, (pixels, pixels)) for kind in ("concat", "rearrange")} == {"move"}


def test_ranks_and_errors_by_hand():
    assert model_fit.spearman([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert model_fit.spearman([1, 1, 2], [5, 5, 9]) == pytest.approx(1.0)
    assert model_fit.median_error([1.1, 2.0, 6.0], [1.0, 2.0, 4.0]) == pytest.approx(0.1)


def test_a_fit_finds_the_weights_that_made_the_numbers_and_keeps_silent_ones():
    features = np.array([[1.0, 0, 0], [0, 2.0, 0], [3.0, 1.0, 0], [5.0, 7.0, 0]])
    measured = features @ [4.0, 0.5, 0.0]

    found = model_fit.weights(features, measured, np.array([1.0, 1.0, 9.0]), pull=1e-9)

    assert found == pytest.approx([4.0, 0.5, 9.0], rel=1e-4)
