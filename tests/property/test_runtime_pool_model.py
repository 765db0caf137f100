"""How the threads of runtime/src/pool.c wake each other, as a model: every order of their steps is tried.

A step is one access to a shared word, or one call of the futex; the order is the one that they all agree on, as for C's
sequentially consistent atomics. Each case of `steps` is a line of pool.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

WORKERS, JOBS, RANGES = 2, 2, 2


@dataclass(frozen=True, slots=True)
class Thread:
    """Where a thread is, and what it has read."""

    at: str
    seen: int = 0
    job: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """The shared words, who sleeps on which word, and the threads; the first one is the caller."""

    threads: tuple[Thread, ...]
    job: int = 0
    left: int = 0
    done: int = 0
    awaited: bool = False
    bell: int = 0
    asleep: bool = False
    stop: bool = False
    sleeping: frozenset[int] = frozenset()
    """Threads in the futex: the caller on `done`, workers on `bell`."""


def steps(world: World, who: int, fault: str) -> Iterator[World]:
    """The world after the next step of a thread; none where it sleeps or has ended. `fault` is a line left out."""
    me = world.threads[who]

    def to(at: str, seen: int = 0, job: int = 0, **words: object) -> World:
        threads = (*world.threads[:who], Thread(at, seen, job), *world.threads[who + 1 :])
        return replace(world, threads=threads, **words)  # type: ignore[arg-type]

    if who in world.sleeping or me.at == "end":
        return
    after = "await" if who == 0 else "heard"
    match me.at:
        case "publish":  # the caller: work = ...
            yield replace(to("ring"), job=world.job + 1, left=RANGES, done=0)
        case "ring" | "last ring":  # if (!asleep) return
            onward = "help" if me.at == "ring" else "join"
            first = "bell" if fault == "bell first" else "silent"
            wakes = world.asleep and fault != "never rings"
            yield to(first, seen=int(me.at == "ring")) if wakes else to(onward)
        case "silent":  # asleep = 0
            yield to("wake" if fault == "bell first" else "bell", seen=me.seen, asleep=False)
        case "bell":  # bell++
            yield to("silent" if fault == "bell first" else "wake", seen=me.seen, bell=world.bell + 1)
        case "wake":  # wake all that sleep on the bell
            yield to("help" if me.seen else "join", sleeping=world.sleeping & {0})
        case "help":  # take a range, if one is left
            taken = replace(to("compute", job=world.job), left=world.left - 1)
            yield taken if world.left else to(after)
        case "compute":  # done++
            assert me.job == world.job, "the job went on while a range of it was computed"
            assert world.done < RANGES, "a range was computed twice"
            last = world.done + 1 == RANGES
            yield replace(to("tell" if last else "help"), done=world.done + 1)
        case "tell":  # if (awaited) wake the caller
            yield to("help", sleeping=world.sleeping - {0}) if world.awaited else to("help")
        case "await":  # a look, after which the caller may have looked often enough
            onward = "sleep" if fault == "waits in silence" else "say"
            yield to("next") if world.done == RANGES else to(onward, seen=world.done)
        case "say":  # awaited = 1
            yield to("check", awaited=True)
        case "check":  # done is read again
            yield to("next") if world.done == RANGES else to("sleep", seen=world.done)
        case "sleep":  # the futex compares and sleeps in one step
            yield to("check", sleeping=world.sleeping | {0}) if world.done == me.seen else to("check")
        case "next":  # awaited = 0
            yield replace(to("publish" if world.job < JOBS else "halt"), awaited=False)
        case "halt":  # stop = 1
            yield to("last ring", stop=True)
        case "join":
            if all(thread.at == "end" for thread in world.threads[1:]):
                yield to("end")
        case "heard":  # a worker has looked often enough: it reads the bell
            yield to("doze", seen=world.bell)
        case "doze":  # asleep = 1
            yield to("bed" if fault == "no last look" else "look", seen=me.seen, asleep=True)
        case "look":  # the last look
            idle = not world.left and not world.stop
            again = world.bell if fault == "bell read late" else me.seen
            yield to("bed", seen=again) if idle else to("woken")
        case "bed":  # the futex compares and sleeps in one step
            yield to("woken", sleeping=world.sleeping | {who}) if world.bell == me.seen else to("woken")
        case "woken":  # while (!stop)
            yield to("end") if world.stop else to("help")
        case _:
            raise AssertionError(me.at)


def stuck(fault: str = "") -> list[World]:
    """Every world from which no thread can go on, although not all have ended; ranges computed twice assert."""
    start = World((Thread("publish"), *[Thread("woken")] * WORKERS))
    seen, work, found = {start}, [start], []
    while work:
        world = work.pop()
        following = [after for who in range(len(world.threads)) for after in steps(world, who, fault)]
        if not following and any(thread.at != "end" for thread in world.threads):
            found.append(world)
        for after in following:
            if after not in seen:
                seen.add(after)
                work.append(after)
    return found


def test_no_order_of_steps_leaves_a_thread_asleep_for_ever() -> None:
    assert stuck() == []


@pytest.mark.parametrize("name", ["never rings", "no last look", "bell first", "bell read late", "waits in silence"])
def test_the_model_sees_what_each_line_is_for(name: str) -> None:
    assert stuck(name)
