"""`make bench`: every pinned model beside onnxruntime on every target that this processor runs, as ratios.

Exits 1 when a figure is invalid; a target that cannot be run here is said to be so.
"""

from __future__ import annotations

import os
from pathlib import Path

from farm import bench, config, shapes
from farm.bench import Question, Report
from kernelfarm.errors import FarmError
from tests.support import models
from toolchains import processor, target

STATE = models.ROOT / "build" / "bench"


def main() -> int:
    """Measure and print; the exit status is that of the worst figure."""
    settings = config.load({**os.environ, "FARM_HOME": str(STATE / "home")})
    status = 0
    print(f"{'model':<16} {'target':<10} {'ours ms':>8} {'peer ms':>8} {'ratio':>6} {'of peak':>8} {'max error':>10}")
    for model in (*models.MODELS, *models.OTHERS, *models.SHARED):
        if not models.is_at_hand(model.name):
            print(f"{model.name:<16} not run: ../shared/models/{model.file_name} is not there")
            continue
        path = models.fetch(model.name)
        for name in target.names():
            if lacking := processor.missing_features(target.load(name)):
                print(f"{model.name:<16} {name:<10} not run: this processor lacks {', '.join(lacking)}")
                continue
            status |= _measure(settings, path, model, name)
    return status


def _measure(settings: config.Config, path: Path, model: models.PackagedModel, name: str) -> int:
    try:
        report = bench.bench(settings, Question(path, name, shapes.parse([model.shape])))
    except FarmError as error:
        print(f"{model.name:<16} {name:<10} {error}")
        return 1
    print(_line(model.name, report))
    for fault in report.faults:
        print(f"{'':<16} INVALID: {fault}")
    return int(report.status)


def _line(name: str, report: Report) -> str:
    best = min(report.peers, key=lambda peer: peer.milliseconds)
    return (
        f"{name:<16} {report.target:<10} {report.ours.milliseconds:>8.3f} {best.milliseconds:>8.3f} "
        f"{report.ratio_best:>6.2f} {100 * report.ours.share_of_peak:>7.0f}% {report.max_abs_error:>10.2g}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
