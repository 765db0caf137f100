"""Sequences [1, L, C], what transformers do with them, and moves of elements: compiled, run, compared, however cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kernelc.graph import Graph
from kernelc.lowering.root import MAX_RELATIVE_ERROR
from kernelc.media import views
from kernelc.media.rules_data import depth_in_space
from kernelc.media.views import View
from kernelfarm.errors import Code, FarmError
from tests.support import plain_numpy
from tests.support.backend_graphs import Maker
from tests.support.kernel_runs import agree, agree_however_cut, compile_graph, targets

Case = Callable[[Maker], tuple[str, ...]]


def sizes(make: Maker, x: str) -> tuple[int, ...]:
    return make.builder.tensors[x].static_shape


def moved(make: Maker, x: str, view: View | None, *shape: int) -> str:
    assert view is not None
    return make.node("rearrange", x, sizes=view.sizes, strides=view.strides, offset=view.offset, shape=shape)


def transposed(make: Maker, x: str, *order: int) -> str:
    shape = sizes(make, x)
    return moved(make, x, views.transposed(views.whole(shape), shape, order), *(shape[axis] for axis in order))


def sliced(make: Maker, x: str, *taken: slice) -> str:
    shape = sizes(make, x)
    ranges = [range(size)[one] for size, one in zip(shape, taken, strict=True)]
    return moved(make, x, views.sliced(views.whole(shape), shape, ranges), *(len(one) for one in ranges))


def split_and_transposed(make: Maker, x: str, split: Sequence[int], order: Sequence[int], *shape: int) -> str:
    return moved(make, x, views.transposed(views.whole(split), split, order), *shape)


def spread_out(make: Maker, x: str, block: int, mode: str) -> str:
    """Depth to space, as a move."""
    batch, channels, height, width = sizes(make, x)
    view = views.transposed(views.whole(sizes(make, x)), *depth_in_space(sizes(make, x), block, mode))
    return moved(make, x, view, batch, channels // block**2, height * block, width * block)


def attention(make: Maker) -> tuple[str, ...]:
    """Two heads of five channels over seven steps, with a residual."""
    x = make.node("relu", make.input(1, 7, 10))
    norm = make.node("mul", make.node("layer_norm", x, epsilon=1e-5), make.weight(1, 1, 10))
    norm = make.node("add", norm, make.weight(1, 1, 10))
    mixed = make.node("matmul", norm, make.weight(10, 30, scale=0.3), make.weight(30))
    heads = views.transposed(views.whole((7, 3, 2, 5)), (7, 3, 2, 5), (1, 2, 0, 3))
    assert heads is not None
    q, k, v = (
        moved(make, mixed, views.sliced(heads, (3, 2, 7, 5), [range(i, i + 1), *map(range, (2, 7, 5))]), 1, 2, 7, 5)
        for i in range(3)
    )
    scores = make.node("matmul", make.node("mul", q, make.constant(0.4)), transposed(make, k, 0, 1, 3, 2))
    found = make.node("matmul", make.node("softmax", scores, axis=3), v)
    joined = split_and_transposed(make, found, (1, 2, 7, 5), (0, 2, 1, 3), 1, 7, 10)
    return (make.node("add", make.node("matmul", joined, make.weight(10, 10, scale=0.3)), x),)


def halo_after_sequence(make: Maker) -> tuple[str, ...]:
    """An image whose memory is a sequence's, read with padding."""
    x = make.node("relu", make.input(1, 9, 20))
    image = transposed(make, make.node("reshape", x, shape=(1, 1, 9, 20)), 0, 3, 1, 2)
    return (make.conv(image, 5, (1, 3), pads=(0, 1, 0, 1)), make.node("relu", x))


CASES: dict[str, Case] = {
    "sequence-itself": lambda m: (m.input(1, 7, 20),),
    "sequence-of-five-channels": lambda m: (m.input(1, 33, 5),),
    "sequence-of-one-channel": lambda m: (m.node("relu", m.input(1, 9, 1)),),
    "sequence-of-one-step": lambda m: (m.node("relu", m.input(1, 1, 37)),),
    "sequence-of-33-channels": lambda m: (m.node("relu", m.input(1, 70, 33)),),
    "sequence-add-channel": lambda m: (m.node("add", m.input(1, 7, 20), m.weight(1, 1, 20)),),
    "sequence-add-whole-constant": lambda m: (m.node("add", m.input(1, 7, 20), m.weight(1, 7, 20)),),
    "sequence-mul-channel-value": lambda m: (m.node("mul", m.input(1, 7, 20), m.input(1, 1, 20)),),
    "sequence-matmul": lambda m: (m.node("matmul", m.input(1, 9, 20), m.weight(20, 33, scale=0.2), m.weight(33)),),
    "sequence-matmul-residual": lambda m: (
        m.node("add", m.node("matmul", m.input(1, 9, 20), m.weight(20, 35, scale=0.2)), m.input(1, 9, 35)),
    ),
    "sequence-softmax": lambda m: (m.node("softmax", m.input(1, 6, 19), axis=2),),
    "sequence-concat-steps": lambda m: (m.node("concat", m.input(1, 6, 19), m.input(1, 3, 19), axis=1),),
    "sequence-concat-channels": lambda m: (m.node("concat", m.input(1, 6, 19), m.input(1, 6, 4), axis=2),),
    "sequence-layer-norm": lambda m: (m.node("layer_norm", m.input(1, 7, 37), epsilon=1e-5),),
    "sequence-layer-norm-whole-blocks": lambda m: (m.node("layer_norm", m.input(1, 5, 48), epsilon=1e-5),),
    "sequence-layer-norm-few": lambda m: (m.node("layer_norm", m.input(1, 20, 3), epsilon=0.5),),
    "sequence-layer-norm-one-pixel": lambda m: (m.node("relu", m.node("layer_norm", m.input(1, 48), epsilon=1e-5)),),
    "sequence-attention": attention,
    "sequence-halo-after": halo_after_sequence,
    "rows-softmax": lambda m: (m.node("mul", m.node("softmax", m.input(1, 18, 3, 9), axis=3), m.constant(3.0)),),
    "rows-softmax-one-column": lambda m: (m.node("softmax", m.input(1, 5, 3, 1), axis=3),),
    "values-matmul": lambda m: (m.node("matmul", m.input(1, 18, 5, 7), m.input(1, 18, 7, 21)),),
    "values-matmul-residual": lambda m: (
        m.node("add", m.input(1, 3, 4, 6), m.node("matmul", m.input(1, 3, 4, 1), m.input(1, 3, 1, 6))),
    ),
    "move-channels-last": lambda m: (transposed(m, m.input(1, 20, 3, 5), 0, 2, 3, 1),),
    "move-rows-for-columns": lambda m: (transposed(m, m.node("relu", m.input(1, 20, 3, 5)), 0, 1, 3, 2),),
    "move-channels-for-rows": lambda m: (transposed(m, m.input(1, 18, 3, 5), 0, 2, 1, 3),),
    "move-sequence-for-channels": lambda m: (transposed(m, m.input(1, 21, 34), 0, 2, 1),),
    "move-few-channels-renamed": lambda m: (
        m.node("relu", split_and_transposed(m, m.input(1, 33, 5), (33, 5), (1, 0), 1, 5, 1, 33)),
    ),
    "move-few-channels-renamed-for-a-mean": lambda m: (
        m.node("global_average_pool", split_and_transposed(m, m.input(1, 33, 5), (33, 5), (1, 0), 1, 5, 1, 33)),
    ),
    "move-few-channels": lambda m: (transposed(m, m.input(1, 21, 3), 0, 2, 1),),
    "move-some-channels": lambda m: (
        sliced(m, m.node("relu", m.input(1, 40, 3, 5)), slice(None), slice(5, 38), slice(None), slice(None)),
    ),
    "move-every-other": lambda m: (
        sliced(m, m.input(1, 20, 7, 9), slice(None), slice(1, 20, 3), slice(1, 7, 2), slice(0, 9, 2)),
    ),
    "move-mirrored": lambda m: (sliced(m, m.input(1, 20, 3, 9), *[slice(None)] * 3, slice(None, None, -1)),),
    "move-rotated": lambda m: (
        sliced(m, transposed(m, m.input(1, 3, 4, 9), 0, 1, 3, 2), *[slice(None)] * 2, slice(None, None, -1), slice(4)),
    ),
    "move-space-to-depth": lambda m: (
        m.conv(
            split_and_transposed(m, m.input(1, 3, 6, 10), (1, 3, 3, 2, 5, 2), (0, 5, 3, 1, 2, 4), 1, 12, 3, 5), 4, 3
        ),
    ),
    "move-channel-shuffle": lambda m: (
        split_and_transposed(m, m.node("relu", m.input(1, 24, 3, 4)), (1, 2, 12, 12), (0, 2, 1, 3), 1, 24, 3, 4),
    ),
    "move-image-to-sequence": lambda m: (
        split_and_transposed(m, m.node("relu", m.input(1, 6, 4, 5)), (1, 6, 20), (0, 2, 1), 1, 20, 6),
    ),
    "move-flattened": lambda m: (m.node("reshape", m.node("relu", m.input(1, 2, 4, 4)), shape=(1, 32)),),
    "move-unflattened": lambda m: (m.node("reshape", m.node("relu", m.input(1, 36)), shape=(1, 3, 4, 3)),),
    "move-split-rows": lambda m: (m.node("reshape", m.node("relu", m.input(1, 20, 6, 4)), shape=(1, 40, 3, 4)),),
    "move-longer-rows": lambda m: (m.node("reshape", m.node("relu", m.input(1, 18, 6, 4)), shape=(1, 18, 2, 12)),),
    "move-depth-to-space-rows-in-turn": lambda m: (spread_out(m, m.input(1, 12, 3, 21), 2, "CRD"),),
    "move-depth-to-space-rows-in-turn-dcr": lambda m: (spread_out(m, m.input(1, 12, 3, 37), 2, "DCR"),),
    "move-depth-to-space-by-3": lambda m: (spread_out(m, m.input(1, 18, 2, 19), 3, "CRD"),),
    "move-depth-to-space-by-3-dcr": lambda m: (spread_out(m, m.conv(m.input(1, 5, 3, 7), 27, 1), 3, "DCR"),),
    "move-depth-to-space-by-4-then-halo": lambda m: (
        m.conv(spread_out(m, m.input(1, 16, 3, 6), 4, "CRD"), 2, 3, pads=(1, 1, 1, 1)),
    ),
    "move-depth-to-space-by-9": lambda m: (spread_out(m, m.input(1, 81, 1, 3), 9, "CRD"),),
    "move-depth-to-space-of-blocks": lambda m: (
        m.conv(spread_out(m, m.conv(m.input(1, 5, 3, 7), 80, 1), 2, "CRD"), 17, 3, pads=(1, 1, 1, 1)),
    ),
    "move-depth-to-space-one-column": lambda m: (spread_out(m, m.input(1, 8, 5, 1), 2, "CRD"),),
    "move-halves-of-channels": lambda m: tuple(
        sliced(m, x, slice(None), part, slice(None), slice(None))
        for x in [m.input(1, 6, 3, 21)]
        for part in (slice(3), slice(3, 6))
    ),
    "move-parts-of-rows": lambda m: tuple(
        sliced(m, x, slice(None), slice(None), slice(None), part)
        for x in [m.node("relu", m.input(1, 3, 2, 40))]
        for part in (slice(9), slice(9, 40))
    ),
    "move-depth-to-space": lambda m: (
        split_and_transposed(m, m.conv(m.input(1, 5, 3, 4), 12, 1), (1, 3, 2, 2, 3, 4), (0, 1, 4, 2, 5, 3), 1, 3, 6, 8),
    ),
}


def graph_of(case: str) -> Graph:
    make = Maker(seed=len(case))
    return make.finish(*CASES[case](make))


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_numpy_however_it_is_cut(case: str, name: str, tmp_path: Path) -> None:
    agree_however_cut(graph_of(case), name, tmp_path)


@pytest.mark.parametrize("name", targets())
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_moves_bits_unchanged(mode: str, name: str, tmp_path: Path) -> None:
    make = Maker()
    x = make.input(1, 12, 2, 21)
    value = np.resize(np.array([np.nan, np.inf, -0.0, 1e-42, 3.5], np.float32), (1, 12, 2, 21))
    compiled = compile_graph(make.finish(spread_out(make, x, 2, mode)), name, tmp_path)

    (found,) = compiled.run([value])

    for c, i, j in np.ndindex(3, 2, 2):
        channel = c * 4 + i * 2 + j if mode == "CRD" else (i * 2 + j) * 3 + c
        assert found[0, c, i::2, j::2].tobytes() == value[0, channel].tobytes()


@pytest.mark.parametrize("name", targets())
def test_roots_of_all_sizes(name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(make.node("sqrt", make.input(1, 16, 1, 1024)))
    draw = np.random.Generator(np.random.PCG64(3))
    value = (1 + draw.random((1, 16, 1, 1024))).astype(np.float32)
    value = np.ldexp(value, draw.integers(-126, 127, value.shape)).astype(np.float32)
    special = [0.0, np.inf, np.nan, -1.0, -np.inf, 1.0, 3.4028235e38, 1.1754944e-38]
    value[0, 3, 0, : len(special)] = special

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    with np.errstate(invalid="ignore"):
        wanted = np.sqrt(value.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=MAX_RELATIVE_ERROR, atol=0)


@pytest.mark.parametrize("channels", [5, 16, 37])
@pytest.mark.parametrize("name", targets())
def test_layer_norm_of_channels_that_are_alike_is_zero(channels: int, name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(make.node("layer_norm", make.input(1, 4, channels), epsilon=1e-5))
    value = np.repeat(np.float32([[[0.1], [100.1], [33333.3], [-1e10]]]), channels, axis=2)

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    assert not found.any()


@pytest.mark.parametrize("name", targets())
def test_layer_norm_of_small_differences_of_large_numbers(name: str, tmp_path: Path) -> None:
    make = Maker()
    graph = make.finish(make.node("layer_norm", make.input(1, 9, 19), epsilon=1e-5))
    draw = np.random.Generator(np.random.PCG64(5))
    value = (1e6 + draw.standard_normal((1, 9, 19))).astype(np.float32)

    (found,) = compile_graph(graph, name, tmp_path).run([value])

    agree(found, plain_numpy.evaluate(graph, [value])[0])


def refusal(make: Maker, *outputs: str) -> FarmError:
    with pytest.raises(FarmError) as error:
        compile_graph(make.finish(*outputs), "x86-64-v3", Path("unused"))
    assert error.value.code is Code.OPERATOR_NOT_LOWERED
    return error.value


def test_a_reshape_that_no_row_column_or_channel_says_is_refused() -> None:
    make = Maker()
    error = refusal(make, make.node("reshape", make.node("relu", make.input(1, 6, 2, 2)), shape=(1, 8, 3)))
    assert error.detail == {"node": "n1_reshape", "op": "reshape"}


def test_a_move_in_too_many_pieces_is_refused() -> None:
    make = Maker()
    error = refusal(make, transposed(make, make.node("relu", make.input(1, 5000, 3)), 0, 2, 1))
    assert error.detail["op"] == "rearrange"


@pytest.mark.parametrize(("left", "right"), [((1, 3, 4), (1, 4, 3)), ((1, 1, 4, 3), (1, 2, 3, 4))])
def test_other_products_of_two_values_are_refused(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    make = Maker()
    assert refusal(make, make.node("matmul", make.input(*left), make.input(*right))).detail["op"] == "matmul"


def test_a_layer_norm_of_rows_is_refused() -> None:
    make = Maker()
    assert refusal(make, make.node("layer_norm", make.input(1, 3, 4, 5), epsilon=1e-5)).detail["op"] == "layer_norm"
