"""The kernels of an explanation for people: what the model predicts, and what `farm explain --measure` found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli import output

if TYPE_CHECKING:
    from farm.measure import Report
    from kernelc.explanation import Explanation, KernelStory

LOSERS = 5


def predicted(found: Explanation) -> str:
    """A table of the kernels with their predicted cost, and one of the stages' times."""
    whole = sum(one.half_cycles for one in found.kernels) or 1
    head = ["kernel", "class", "tile", "parts", "kcycles", "share", "bound", "registers", "KiB in", "KiB out"]
    rows = [
        [
            *(one.name, one.family, one.tile, str(one.parts)),
            f"{one.half_cycles / 2000:.1f}",
            _percent(one.half_cycles / whole),
            *_notes(one),
        ]
        for one in found.kernels
    ]
    stages = [[one.name, f"{one.microseconds / 1000:.1f}"] for one in found.stages]
    stages.append(["all", f"{sum(one.microseconds for one in found.stages) / 1000:.1f}"])
    tables = [output.table(head, rows), "", output.table(["stage", "ms"], stages)]
    return "\n".join([*tables, f"predicted: {whole / 2e6:.3f} million cycles"])


def measured(report: Report) -> str:
    """Tables of the kernels in order, of the classes, and of where most time is lost; then the checks' figures."""
    head = ["kernel", "class", "tile", "us", "share", "GF/s", "of peak", "predicted", "ratio"]
    rows = [
        [
            *(part.story.name, part.story.family, part.story.tile, f"{part.nanoseconds / 1000:.2f}"),
            *(_percent(part.nanoseconds / report.sum_ns), f"{part.gflops:.1f}"),
            _percent(part.gflops / report.peak_gflops),
            *_against(part.predicted_ns, part.nanoseconds),
            *_notes(part.story),
        ]
        for part in report.parts
    ]
    parts = [output.table([*head, "bound", "registers", "KiB in", "KiB out"], rows), "", _classes(report), ""]
    for part in report.losers(LOSERS):
        lost = part.nanoseconds - part.story.flop / report.peak_gflops
        parts.append(
            f"loses {lost / 1000:.1f} us to the peak: {part.story.name} ({part.story.family}, tile {part.story.tile},"
            f" {_percent(part.gflops / report.peak_gflops)} of peak, by the model bound by {part.story.bound})"
        )
    parts.append(
        f"{report.model} for {report.target}: {report.sum_ns / 1000:.1f} us in {len(report.parts)} kernels, "
        f"{report.sum_ns / report.whole_ns:.2f} of a whole inference ({report.whole_ns / 1000:.1f} us; by the runtime "
        f"{report.engine_ns / 1000:.1f} us); peak {report.peak_gflops:.1f} GF/s, clock {report.reading_ns} ns, "
        f"{report.inferences} inferences"
    )
    return "\n".join(parts)


def _classes(report: Report) -> str:
    head = ["class", "kernels", "us", "share", "GF/s", "of peak", "predicted", "ratio"]
    return output.table(
        head,
        [
            [
                *(one.family, str(one.count), f"{one.nanoseconds / 1000:.1f}"),
                *(_percent(one.nanoseconds / report.sum_ns), f"{one.flop / one.nanoseconds:.1f}"),
                _percent(one.flop / one.nanoseconds / report.peak_gflops),
                *_against(one.predicted_ns, one.nanoseconds),
            ]
            for one in report.sums()
        ],
    )


def _against(predicted_ns: float, nanoseconds: int) -> tuple[str, str]:
    return f"{predicted_ns / 1000:.2f}", f"{predicted_ns / nanoseconds:.2f}"


def _notes(one: KernelStory) -> tuple[str, ...]:
    held = f"{one.registers}/{one.most}" if one.registers else "-"
    return one.bound, held, f"{one.read / 1024:.0f}", f"{one.written / 1024:.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
