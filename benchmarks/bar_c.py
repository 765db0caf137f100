"""`make bar-C`: issue C's bar as far as it is measured: speed beside every peer and unfused. Writes build/bar/C.json.

    python -m benchmarks.bar_c [NAME...]      only these lines; the file names the others

Exits 1 when a line does not hold. Models that do not compile yet count against the bar: it names thirteen.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator, Mapping

from benchmarks import bar, fusion, prepared, run, table
from benchmarks.bar import Line
from benchmarks.measure import Measured
from benchmarks.records import Record
from toolchains import target


def speed(threads: int) -> Iterator[Line]:
    """Geometric means and the worst model on so many threads."""
    given: argparse.Namespace = run.options(["--threads", str(threads), "--groups"])
    yield from lines(run.run([model.name for model in prepared.all_models()], given))


def lines(record: Record) -> Iterator[Line]:
    """The lines of one run. Pure."""
    where = f"{record.target}, {'one thread' if record.threads == 1 else f'{record.threads} threads'}"
    found = table.measured(record)
    lacking = [_why(entry.model, entry.figures, entry.error) for entry in record.models if entry.figures not in found]
    figure = f"{len(found)} of {len(record.models)}"
    yield Line(f"models measured, {where}", figure, "all", len(found) == len(record.models), lacking=lacking)
    to_best = {one.model: ratio for one in found if (ratio := one.ratio_best) is not None}
    to_ort = {one.model: ratio for one in found if (ratio := one.ratio("onnxruntime")) is not None}
    yield _mean(f"to onnxruntime, {where}", to_ort, table.TO_ONNXRUNTIME, "")
    yield _mean(f"to the best peer, {where}", to_best, table.TO_BEST, f", goal {table.GOAL:.2f}")
    above = {model: ratio for model, ratio in to_best.items() if ratio > table.WORST}
    worst = max(to_best.values(), default=0.0)
    told = [f"{model} {ratio:.2f}" for model, ratio in sorted(above.items())]
    holds = bool(to_best) and not above
    yield Line(f"worst model, {where}", f"{worst:.2f}", f"at most {table.WORST:.2f}", holds, to_best, told)
    slower = [f"{model} {ratio:.2f}: {_loses(record, model)}" for model, ratio in sorted(to_best.items()) if ratio > 1]
    yield Line(f"models above 1.00, {where}", str(len(slower)), "each with the group that loses", True, slower)


def _mean(name: str, ratios: Mapping[str, float], limit: float, goal: str) -> Line:
    mean = table.geometric_mean(ratios.values())
    return Line(f"geometric mean {name}", f"{mean:.3f}", f"at most {limit:.2f}{goal}", mean <= limit, dict(ratios))


def _why(model: str, figures: Measured | None, error: Mapping[str, str] | None) -> str:
    if figures is None:
        return f"{model}: {(error or {}).get('code', 'not measured')}: {(error or {}).get('why', '')}"
    ours = figures.sides["ours"]
    return f"{model}: ours {ours.state}: {ours.why}" if not ours.counts else f"{model}: no peer counts"


def _loses(record: Record, model: str) -> str:
    """The group that loses most to onnxruntime's for the same, where groups were timed."""
    (entry,) = (entry for entry in record.models if entry.model == model)
    known = [group for group in entry.groups if group.peer_us]
    if not known:
        return "groups are timed on one thread only"
    lost = max(known, key=lambda group: group.ours_us - (group.peer_us or 0))
    if lost.peer_us is None or lost.ours_us <= lost.peer_us:
        return "no group loses to onnxruntime's"
    return f"{lost.name} ({lost.kind}) takes {lost.ours_us:.0f} us, onnxruntime's {lost.peer_us:.0f}"


def fused() -> Iterator[Line]:
    """Fused beside one kernel for each operator: geometric means, and what epilogues cost over all models."""
    name = prepared.best_target()
    models = [model.name for model in prepared.all_models()]
    found, lacking = fusion.run(models, target.load(name), fusion.ROUNDS)
    yield Line(
        f"models both ways, {name}", f"{len(found)} of {len(models)}", "all, same answers", not lacking, lacking=lacking
    )
    for what, figure, limit in LIMITS:
        mean = fusion.mean(found, figure) if found else 1.0
        ratios = {one.model: one.ratio(figure) for one in found}
        yield Line(f"{what}, fused by unfused, {name}", f"{mean:.3f}", f"at most {limit:.2f}", mean <= limit, ratios)
    epilogues = fusion.together(found)
    alone, fused_ns = sum(one.alone_ns for one in epilogues), sum(one.with_ns for one in epilogues)
    cost = fused_ns / alone - 1 if alone else 0.0
    detail = {f"{one.anchor} + {one.steps}": one.cost for one in epilogues}
    yield Line(f"epilogues, {name}", f"{100 * cost:.1f} %", f"at most {100 * EPILOGUE:.0f} %", cost <= EPILOGUE, detail)


LIMITS = (("latency", "nanoseconds", 0.80), ("memory traffic", "traffic", 0.70), ("arena", "arena", 0.75))
EPILOGUE = 0.05
MEASURES = {"speed1": functools.partial(speed, 1), "speed2": functools.partial(speed, 2), "fused": fused}


def main(words: list[str]) -> int:
    """Measure the chosen lines, or all; 1 when one does not hold."""
    return bar.measure("C", bar.options("C", __doc__, list(MEASURES), words).lines, MEASURES)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
