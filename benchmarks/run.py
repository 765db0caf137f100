"""`make bench`: every model of the bar beside every peer, each in a process of its own, as ratios with checks.

    python -m benchmarks.run [--threads N] [--rounds N] [--target NAME] [--peer NAME]... [--groups] [MODEL...]

Prints a table by model and with `--groups` one by kind of operation; writes build/bench/bench-N.json (N threads),
and a picture of it. Exits 1 when a figure of ours is invalid or a model is not measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import groups, measure, picture, prepared, records, table
from benchmarks.peers.catalogue import NOT_APPLICABLE, PEERS
from benchmarks.records import Record
from farm import config
from kernelfarm.errors import FarmError
from tests.support import models

STATE = models.ROOT / "build" / "bench"
ROUNDS = 25


def options(words: Sequence[str]) -> argparse.Namespace:
    """The command line; ends the process with 2 for one that is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    names = [model.name for model in prepared.all_models()]
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--threads", type=int, choices=range(1, 1 + len(os.sched_getaffinity(0))), default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--target", default=None, help="by default the best that this processor runs")
    parser.add_argument("--peer", action="append", choices=[peer.name for peer in PEERS], help="all by default")
    parser.add_argument("--groups", action="store_true", help="where our time goes, by group, beside onnxruntime's")
    parser.add_argument("--out", type=Path, default=None, help="the JSON file")
    given = parser.parse_args(words)
    if unknown := sorted(set(given.models) - set(names)):
        parser.error(f"no such model: {', '.join(unknown)}")
    return given


def main(words: Sequence[str]) -> int:
    """Measure, print, write; the exit status."""
    given = options(words)
    chosen = [model for model in prepared.all_models() if not given.models or model.name in given.models]
    record = run([model.name for model in chosen], given)
    print()
    print("\n".join(table.summary(record)))
    return 0 if all(one.figures is not None and one.figures.sides["ours"].counts for one in record.models) else 1


def run(names: Sequence[str], given: argparse.Namespace) -> Record:
    """Measure the models named; a line is printed and the record written after each."""
    os.environ["FARM_HOME"] = str(STATE / "home")  # the farm's worker processes read it too
    settings = config.load()
    kept = STATE / "compiled"
    kept.mkdir(parents=True, exist_ok=True)
    cores = sorted(os.sched_getaffinity(0))[: given.threads]
    peers = [peer for peer in PEERS if given.peer is None or peer.name in given.peer]
    record = Record(given.target or prepared.best_target(), given.threads, given.rounds)
    path = given.out or STATE / f"bench-{given.threads}.json"
    print("\n".join(table.head([peer.name for peer in peers])), flush=True)
    for name in names:
        model = prepared.find(name)
        entry = records.Entry(name, model.shape)
        try:
            with prepared.prepared(settings, model, record.target) as ready:
                entry.payload = str(ready.payload.payload)
                entry.figures = measure.measure(ready.subject, cores, given.rounds, ready.work, peers=peers, kept=kept)
                if given.groups and given.threads == 1:
                    entry.groups = groups.beside(settings, ready, model, cores, prepared.fetch(model), kept)
        except FarmError as error:
            entry.error = {"code": error.code.name, "what": error.what, "why": error.why}
        record.models.append(entry)
        print("\n".join(table.lines(entry, [peer.name for peer in peers])), flush=True)
        record.write(path)
    for name, why in NOT_APPLICABLE.items():
        print(f"{name} does not apply: {why}")
    picture.write(record, path.with_suffix(".svg"))
    print(
        f"written to {path.relative_to(models.ROOT) if path.is_relative_to(models.ROOT) else path}, picture beside it"
    )
    return record


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
