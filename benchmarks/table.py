"""A run of `make bench` as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.measure import Measured, Side
from benchmarks.records import Entry, GroupTime, Record

TO_ONNXRUNTIME, TO_BEST, GOAL, WORST = 0.90, 1.00, 0.85, 1.30
"""The bar: geometric means of ours by onnxruntime's and by the best peer's (with a goal), and no model above."""
CLOCK_US = 1.0
"""Of an operation that takes less a clock says nothing."""


def head(peers: Sequence[str]) -> list[str]:
    """The head of the table by model; times in milliseconds."""
    names = "".join(f"{name:>12}" for name in peers)
    return [f"{'model':<20}{'ours ms':>9}{names}{'/ort':>7}{'/best':>7}{'of peak':>9}{'max error':>11}{'load':>6}"]


def lines(entry: Entry, peers: Sequence[str]) -> list[str]:
    """One model's line, what is wrong with any side below it, and its groups."""
    found = entry.figures
    if found is None:
        why = entry.error or {"code": "?", "what": "it was not measured", "why": ""}
        return [f"{entry.model:<20} not measured: {why['code']}: {why['what']}: {why['why']}"]
    ours = found.sides["ours"]
    times = "".join(f"{_cell(found.sides[name]):>12}" for name in peers)
    ratios = _ratio(found.ratio("onnxruntime")) + _ratio(found.ratio_best)
    error = "" if ours.max_abs_error is None else f"{ours.max_abs_error:.2g}"
    row = f"{entry.model:<20}{_cell(ours):>9}{times}{ratios}{100 * ours.share_of_peak:>8.0f}%{error:>11}"
    wrong = [
        f"{'':<20} {side.name} {side.state}: {side.why}" for side in found.sides.values() if side.state != "measured"
    ]
    return [f"{row}{max(found.loads):>6.1f}", *wrong, *_groups(entry.groups)]


def _cell(side: Side) -> str:
    return f"{side.best_ns / 1e6:.3f}" if side.counts else side.state


def _ratio(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.2f'):>7}"


def _groups(found: Sequence[GroupTime]) -> list[str]:
    if not found:
        return []
    told = [f"{'':<4}{'group':<34}{'kind':<20}{'shape':<18}{'us':>9}{'ort us':>9}{'ratio':>7}{'GF/s':>7}"]
    for one in found:
        peer = "" if one.peer_us is None else f"{one.peer_us:.0f}"
        ratio = "" if not one.peer_us else f"{one.ours_us / one.peer_us:.2f}"
        speed = f"{one.gflops:.1f}" if one.ours_us >= CLOCK_US else ""
        told.append(
            f"{'':<4}{one.name:<34}{one.kind:<20}{one.shape:<18}{one.ours_us:>9.1f}{peer:>9}{ratio:>7}{speed:>7}"
        )
    return told


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers; not a number of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def measured(record: Record) -> list[Measured]:
    """The models whose figures count."""
    return [one.figures for one in record.models if one.figures is not None and one.figures.ratio_best is not None]


def summary(record: Record) -> list[str]:
    """Geometric means over what was measured, with the bar's verdicts, and the models above 1."""
    found = measured(record)
    threads = "one thread" if record.threads == 1 else f"{record.threads} threads"
    told = [f"{record.target}, {threads}: {len(found)} of {len(record.models)} models measured"]
    to_ort = [ratio for one in found if (ratio := one.ratio("onnxruntime")) is not None]
    to_best = {one.model: ratio for one in found if (ratio := one.ratio_best) is not None}
    for name, values, limit in (
        ("to onnxruntime", to_ort, TO_ONNXRUNTIME),
        ("to the best peer", list(to_best.values()), TO_BEST),
    ):
        if values:
            mean = geometric_mean(values)
            told.append(f"  geometric mean {name}: {mean:.3f}, {_verdict(mean <= limit)} (at most {limit:.2f})")
    if to_best:
        worst = max(to_best, key=lambda model: to_best[model])
        told.append(
            f"  worst model: {worst} {to_best[worst]:.2f}, {_verdict(to_best[worst] <= WORST)} (at most {WORST:.2f})"
        )
    for one in found:
        if to_best[one.model] > 1:
            told.append(f"  above 1.00: {one.model} {to_best[one.model]:.2f}, {one.best_peer} is faster")
    return told


def _verdict(holds: bool) -> str:
    return "holds" if holds else "does NOT hold"
