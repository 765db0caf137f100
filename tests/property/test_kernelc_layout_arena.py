"""No two values that live at the same time share a byte of the arena."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelc.layout.arena import Lifetime, plan

LIFETIMES = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 12), st.integers(0, 6)).map(
        lambda parts: (parts[0], parts[1], parts[1] + parts[2])
    ),
    max_size=24,
).map(lambda entries: [Lifetime(f"v{index}", *entry) for index, entry in enumerate(entries)])


@settings(max_examples=200, deadline=None)
@given(LIFETIMES)
def test_values_alive_together_do_not_overlap(lifetimes: list[Lifetime]) -> None:
    arena = plan(lifetimes)

    for one, other in combinations(lifetimes, 2):
        if one.overlaps(other):
            start, begin = arena.offsets[one.name], arena.offsets[other.name]
            assert start + one.bytes <= begin or begin + other.bytes <= start


@settings(max_examples=100, deadline=None)
@given(LIFETIMES)
def test_everything_is_aligned_and_inside(lifetimes: list[Lifetime]) -> None:
    arena = plan(lifetimes)

    assert arena.bytes % 64 == 0
    for value in lifetimes:
        assert arena.offsets[value.name] % 64 == 0
        assert arena.offsets[value.name] + value.bytes <= arena.bytes


@settings(max_examples=100, deadline=None)
@given(LIFETIMES)
def test_the_arena_is_never_larger_than_all_values_together(lifetimes: list[Lifetime]) -> None:
    assert plan(lifetimes).bytes <= sum(-(-value.bytes // 64) * 64 for value in lifetimes)
