"""The regression gate: is one recorded run of `make bench` slower than another, or only noisier?

    python -m benchmarks.regression OLD.json NEW.json         two records of the same models and threads
    python -m benchmarks.regression trial MODEL [PERCENT]     ours beside ours drawn out by so much, in one run

Each round of a record holds the best of ours and of onnxruntime, taken within a second or two: their ratio knows
nothing of how fast the machine was in that hour. Of two records the medians of these ratios are compared, and a
bootstrap over rounds (with a fixed seed) says how sure that is. A model is "slower" when its whole interval is above
FLAGGED, and "unsure" when it is not but MISSED lies inside. Exits 1 when a model is slower, 3 when one is unsure.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import records
from benchmarks.measure import Measured
from benchmarks.records import Record
from kernelfarm.errors import Code, FarmError, Status

FLAGGED = 1.05
"""Between 2 %, which is noise, and 10 %, which is not."""
MISSED = 1.10
"""A slowdown that must not be called the same."""
CONFIDENCE = 0.95
DRAWS = 4000
LEAST = 8
"""Rounds without which nothing can be said."""
BASE = "onnxruntime"

Ratios = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one model: new time by old (1.1: a tenth slower), the interval, and "same", "slower", "faster" or "unsure"."""

    model: str
    change: float
    low: float
    high: float
    word: str

    def describe(self) -> str:
        """One line."""
        figures = f"{100 * (self.change - 1):+6.1f} %  ({100 * (self.low - 1):+.1f} to {100 * (self.high - 1):+.1f})"
        return f"{self.model:<20} {figures:<34} {self.word}"


def judge(model: str, old: Ratios, new: Ratios) -> Verdict:
    """Compare the ratios of rounds. Pure, and the same each time."""
    change = float(np.median(new) / np.median(old))
    draws = np.random.Generator(np.random.PCG64(0))
    low, high = (float(end) for end in _interval(old, new, draws))
    return Verdict(model, change, low, high, _word(low, high, min(len(old), len(new))))


def _word(low: float, high: float, rounds: int) -> str:
    if rounds < LEAST:
        return "unsure"
    if low > FLAGGED:
        return "slower"
    if high > MISSED:
        return "unsure"
    return "faster" if high < 1 / FLAGGED else "same"


def _interval(old: Ratios, new: Ratios, draws: np.random.Generator) -> tuple[float, float]:
    drawn = [np.median(draws.choice(one, (DRAWS, len(one))), axis=1) for one in (new, old)]
    low, high = np.quantile(drawn[0] / drawn[1], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return low, high


def ratios(found: Measured, side: str = "ours", base: str = BASE) -> Ratios:
    """Of each round the time of `side` by that of `base`; empty where either does not count."""
    one, other = found.sides.get(side), found.sides.get(base)
    if one is None or other is None or not one.counts or not other.counts:
        return np.zeros(0)
    pairs = [(a, b) for a, b in zip(one.rounds, other.rounds, strict=False) if a > 0 and b > 0]
    return np.array([a / b for a, b in pairs], np.float64)


def compare(old: Record, new: Record) -> list[Verdict]:
    """A verdict for each model of the old record; raises `FarmError` USAGE for records of different things."""
    if (old.target, old.threads) != (new.target, new.threads):
        why = f"{old.target} on {old.threads} thread(s) and {new.target} on {new.threads}"
        raise FarmError(Code.USAGE, "the two records are of different things", why, "Measure both alike.")
    figures = {entry.model: entry.figures for entry in new.models}
    verdicts = []
    for entry in old.models:
        before = np.zeros(0) if entry.figures is None else ratios(entry.figures)
        now = figures.get(entry.model)
        after = np.zeros(0) if now is None else ratios(now)
        if not len(before):
            continue  # nothing to be slower than
        if not len(after):
            verdicts.append(Verdict(entry.model, math.nan, math.nan, math.nan, "unsure"))
            continue
        verdicts.append(judge(entry.model, before, after))
    return verdicts


def status(verdicts: Sequence[Verdict]) -> int:
    """The exit status."""
    words = {verdict.word for verdict in verdicts}
    if "slower" in words:
        return int(Status.BAD)
    return int(Status.ENVIRONMENT) if "unsure" in words or not verdicts else int(Status.DONE)


def main(words: Sequence[str]) -> int:
    """Compare or try, and print."""
    try:
        if words[:1] == ["trial"] and len(words) in (2, 3):
            from benchmarks import trial  # here: comparing records needs no compiler

            return trial.main(words[1], float(words[2]) if len(words) == 3 else 10.0)
        if len(words) != 2:
            print(__doc__, file=sys.stderr)
            return int(Status.USAGE)
        verdicts = compare(*(records.read(Path(word)) for word in words))
    except FarmError as error:
        print(error, file=sys.stderr)
        return int(error.status)
    for verdict in verdicts:
        print(verdict.describe())
    return status(verdicts)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
