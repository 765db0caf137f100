"""Our groups beside another runtime's nodes: by kind, and convolutions one by one."""

from __future__ import annotations

from benchmarks import groups
from benchmarks.records import GroupTime

CONFIG = [
    {"name": "input0", "kind": "layout_cast", "flop": 0},
    {"name": "a_conv", "kind": "conv", "flop": 2000},
    {"name": "b_conv", "kind": "conv", "flop": 4000},
    {"name": "c_pool", "kind": "max_pool", "flop": 10},
]
TIMES = [1000, 2000, 8000, 500]
MADE = {"a_conv": (1, 20, 4, 4), "b_conv": (1, 20, 4, 4), "c_pool": (1, 20, 2, 2)}


def node(op: str, us: int, made: list[int], *shapes: list[int]) -> dict[str, object]:
    return {"op": op, "us": us, "made": [made], "shapes": list(shapes)}


NODES = [
    node("ReorderInput", 3, [1, 3, 4, 4]),
    node("Conv", 5, [1, 32, 4, 4], [1, 3, 4, 4], [32, 3, 3, 3]),
    node("FusedConv", 6, [1, 32, 4, 4], [1, 32, 4, 4], [32, 32, 1, 1]),
    node("MaxPool", 1, [1, 32, 2, 2]),
    node("HardSwish", 2, [1, 32, 2, 2]),
]


def test_sums_by_kind_come_first_and_what_only_the_other_does_is_there():
    told = groups.judge(CONFIG, TIMES, MADE, NODES)

    assert told[:5] == [
        GroupTime("all conv", "conv", "", 10.0, 11, 0.6),
        GroupTime("all layout_cast", "layout_cast", "", 1.0, 3, 0.0),
        GroupTime("all pool", "pool", "", 0.5, 1, 0.02),
        GroupTime("all other", "other", "", 0.0, 2, 0.0),
        GroupTime("b_conv", "conv 32x32x1x1", "1x20x4x4", 8.0, 6, 0.5),
    ]


def test_convolutions_are_matched_in_order_by_what_they_make_those_that_lose_first():
    lost, won = groups.judge(CONFIG, TIMES, MADE, NODES)[4:]

    assert (lost.name, lost.kind, lost.ours_us, lost.peer_us) == ("b_conv", "conv 32x32x1x1", 8.0, 6)
    assert (won.name, won.kind, won.ours_us, won.peer_us) == ("a_conv", "conv 32x3x3x3", 2.0, 5)


def test_a_convolution_without_a_counterpart_has_no_ratio():
    (only,) = groups.judge(CONFIG[1:2], TIMES[1:2], MADE, [])[1:]

    assert (only.kind, only.peer_us) == ("conv", None)
