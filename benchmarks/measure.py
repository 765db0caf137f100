"""One model's speed beside every peer: server processes on the same cores, interleaved; what makes a figure count."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import OURS, PEERS, Ours, Peer
from benchmarks.peers.client import RefusedError, Server
from farm import agreement
from farm.agreement import Array
from farm.cases import TensorSpec

BLOCK_NS = 10_000_000
"""How long one side runs before the next has its turn."""
LEAST = 3
"""Inferences in a turn at least."""
SLOW_NS = 500_000_000
SLOW_ROUNDS = 2
"""A side whose inference takes longer than SLOW_NS runs once a turn, and in so many rounds only."""
PAUSE_S = 0.02
"""Before a turn on several threads: longer than idle threads of another side look for work."""
WAITING = 1.05
"""CPU time of a process may exceed real time times cores by so much: clocks tick differently."""

MEASURED, REFUSED, INVALID = "measured", "refused", "INVALID"


@dataclass(slots=True)
class Side:
    """One runtime on one model. `best_ns` of an inference, CPU time on one thread and real time on several.

    `rounds` are the bests of each round, `cpu_share` CPU time of the process by real time times cores. `why` says what
    is wrong with a side that is not "measured".
    """

    name: str
    state: str = MEASURED
    why: str = ""
    version: str = ""
    load_s: float = 0.0
    best_ns: int = 0
    runs: int = 0
    cpu_share: float = 0.0
    gflops: float = 0.0
    share_of_peak: float = 0.0
    max_abs_error: float | None = None
    rounds: list[int] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        """Whether its figures may be used."""
        return self.state == MEASURED and self.best_ns > 0


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: files for peers, arrays to feed, the answers expected, and what our server needs (`more`).

    `flop` of an inference, by the payload's own count.
    """

    name: str
    fixed: Path
    folded: Path
    inputs: Mapping[str, Array]
    outputs: Sequence[TensorSpec]
    expected: Mapping[str, Array]
    flop: int
    more: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """All sides of one model in one run; `loads` are the machine's load averages before and after."""

    model: str
    cores: tuple[int, ...]
    flop: int
    peak_gflops: float
    loads: tuple[float, float]
    sides: Mapping[str, Side]

    def ratio(self, name: str) -> float | None:
        """Ours by the side `name`; None where either does not count."""
        ours, other = self.sides["ours"], self.sides.get(name)
        if other is None or not ours.counts or not other.counts:
            return None
        return ours.best_ns / other.best_ns

    @property
    def best_peer(self) -> str | None:
        """The fastest other side that counts."""
        known = [side for name, side in self.sides.items() if name != "ours" and side.counts]
        return min(known, key=lambda side: side.best_ns).name if known else None

    @property
    def ratio_best(self) -> float | None:
        """Ours by the best peer's."""
        return None if self.best_peer is None else self.ratio(self.best_peer)


@dataclass(slots=True)
class _Running:
    side: Side
    server: Server
    cpu_ns: int = 0
    wall_ns: int = 0

    @property
    def slow(self) -> bool:
        return self.side.best_ns > SLOW_NS


def measure(
    subject: Subject, cores: Sequence[int], rounds: int, work: Path, *, peers: Sequence[Peer] = PEERS, kept: Path
) -> Measured:
    """Measure all sides; `work` is an empty folder, `kept` one for compiled models of peers."""
    before = os.getloadavg()[0]
    sides = {peer.name: Side(peer.name) for peer in (OURS, *peers)}
    with contextlib.ExitStack() as stack:
        running = {}
        for peer in (OURS, *peers):
            try:
                server = stack.enter_context(Server(peer, cores, work / f"{peer.name}.log"))
                told = server.load(
                    subject.folded if peer.folded else subject.fixed,
                    subject.inputs,
                    subject.outputs,
                    threads=len(cores),
                    folder=kept,
                    more={**subject.more, "slower": peer.slower} if isinstance(peer, Ours) else None,
                )
            except RefusedError as reason:
                sides[peer.name].state, sides[peer.name].why = REFUSED, str(reason)
                continue
            sides[peer.name].version, sides[peer.name].load_s = str(told["version"]), float(told["seconds"])
            running[peer.name] = _Running(sides[peer.name], server)
        peak = interleave(running, len(cores), rounds) if "ours" in running else 0.0
        for one in running.values():
            with _refusing(one.side):
                _judge(one, subject, cores, peak)
    loads = (before, os.getloadavg()[0])
    return Measured(subject.name, tuple(cores), subject.flop, peak, loads, sides)


def interleave(running: Mapping[str, _Running], threads: int, rounds: int) -> float:
    """Rounds of A B ... B A over all sides; the best FMA peak of all cores in GF/s, probed around each round."""
    for one in running.values():
        _turn(one, threads, least=1)
    peak = _peak(running)
    for number in range(rounds):
        taking = [one for one in running.values() if one.side.state == MEASURED]
        taking = [one for one in taking if number < SLOW_ROUNDS or not one.slow]
        for one in taking:
            one.side.rounds.append(0)
        for one in (*taking, *reversed(taking)):
            _turn(one, threads, least=1 if one.slow else LEAST)
        peak = max(peak, _peak(running))
    return peak * threads


def _peak(running: Mapping[str, _Running]) -> float:
    return float(running["ours"].server.ask("peak")["gflops"])


def _turn(one: _Running, threads: int, least: int) -> None:
    if threads > 1:
        time.sleep(PAUSE_S)
    with _refusing(one.side):
        told = one.server.turn(1 if one.slow else BLOCK_NS, least)
        times, side = told["cpu" if threads == 1 else "wall"], one.side
        best = min(times)
        side.best_ns = min(side.best_ns or best, best)
        if side.rounds:
            side.rounds[-1] = min(side.rounds[-1] or best, best)
        side.runs += len(times)
        one.cpu_ns += told["cpu_ns"]
        one.wall_ns += told["wall_ns"]


@contextlib.contextmanager
def _refusing(side: Side) -> Any:
    try:
        yield
    except RefusedError as reason:
        side.state, side.why = REFUSED, str(reason)


def _judge(one: _Running, subject: Subject, cores: Sequence[int], peak: float) -> None:
    side = one.side
    side.cpu_share = one.cpu_ns / max(1, one.wall_ns) / len(cores)
    side.gflops = subject.flop / max(1, side.best_ns)
    side.share_of_peak = side.gflops / peak if peak else 0.0
    faults = []
    if strays := int(one.server.ask("threads", cores=list(cores))["strays"]):
        faults.append(f"{strays} of its threads may leave the cores given")
    if side.cpu_share > WAITING:
        faults.append(f"it used {side.cpu_share * len(cores):.2f} cores, {len(cores)} were given")
    if peak and side.gflops > peak:
        faults.append(f"it reaches {side.gflops:.1f} GF/s, above the peak of its cores, {peak:.1f} GF/s")
    found = one.server.outputs(subject.outputs)
    agreements = [
        agreement.compare(spec.name, found[spec.name], subject.expected[spec.name]) for spec in subject.outputs
    ]
    side.max_abs_error = max(one.max_abs_error for one in agreements)
    faults += [one.describe() for one in agreements if not one.holds]
    if faults:
        side.state, side.why = INVALID, "; ".join(faults)
