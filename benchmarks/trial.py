"""The live trial of the regression gate: ours beside ours drawn out on purpose, in one run on one core."""

from __future__ import annotations

import os

from benchmarks import measure, prepared, regression
from benchmarks.peers.catalogue import PEERS, Ours
from benchmarks.run import ROUNDS, STATE
from farm import config


def main(name: str, percent: float) -> int:
    """Print what the gate says of none, a fifth of it, and of `percent`; 0 when it flags the last and only that."""
    os.environ["FARM_HOME"] = str(STATE / "home")
    settings = config.load()
    model = prepared.find(name)
    right = True
    with prepared.prepared(settings, model, prepared.best_target()) as ready:
        cores = sorted(os.sched_getaffinity(0))[:1]
        for planted in (0.0, percent / 5, percent):
            slowed = Ours("slowed", f"ours, {planted:g} % slower", slower=planted / 100)
            sides = (slowed, PEERS[0])
            found = measure.measure(ready.subject, cores, ROUNDS, ready.work, peers=sides, kept=STATE)
            verdict = regression.judge(name, regression.ratios(found, "ours"), regression.ratios(found, slowed.name))
            print(f"planted {planted:4.1f} %: {verdict.describe()}   load {max(found.loads):.1f}", flush=True)
            right &= (verdict.word == "slower") == (planted == percent)
    return 0 if right else 1
