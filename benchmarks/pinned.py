"""The claim loop while one idle reader holds its snapshot open, so that nothing dead can be cleared away.

Every claimed task leaves a dead entry at the head of the claim index, and every claim after it steps over all of them,
unless the upkeep of a sweep does something about it: so one thread sweeps meanwhile, as a node would. The bare
statements have no such help.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from statistics import linear_regression

from msgspec import Struct

from benchmarks.drain import Cycle, drain, through, warm_up
from benchmarks.homes import Home
from benchmarks.plan import Plan
from benchmarks.processes import Ready, alone
from benchmarks.progress import say
from benchmarks.table import Result, columns, rate

WINDOWS = 6
SWEEP_EVERY = 0.5


class Decline(Struct, frozen=True, kw_only=True):
    """Tasks a second in each window of one drain, in order."""

    batch: int
    window: int
    """How many tasks a window has."""
    free: Sequence[float]
    """Through the store, nothing pinned."""
    windlass: Sequence[float]
    bare: Sequence[float]

    @property
    def nanoseconds_per_dead_entry(self) -> float:
        """By how much every task settled before lengthens a claim."""
        settled = [(n + 0.5) * self.window for n in range(len(self.windlass))]
        per_claim = [self.batch / one * 1e9 for one in self.windlass]
        return linear_regression(settled, per_claim).slope


def declines(home: Home, plan: Plan) -> Iterator[Decline]:
    """One drain for every size of claim, in one process."""
    for batch, tasks in plan.pinned.items():
        say(f"{home.name}: pinned snapshot, batch {batch:,}, {tasks:,} tasks")
        window = tasks // WINDOWS
        yield Decline(
            batch=batch,
            window=window,
            free=_windows(home, batch, window, _swept, pin=False),
            windlass=_windows(home, batch, window, _swept, pin=True),
            bare=_windows(home, batch, window, _bare, pin=True),
        )


def last_windows(declines: Sequence[Decline]) -> Iterator[Result]:
    """Where each drain has come to in the end, for the store's table."""
    for one in declines:
        after = f"pinned, after {one.window * (WINDOWS - 1):,}"
        windlass, bare = one.windlass[-1], one.bare[-1]
        yield Result(what="claim + settle", condition=after, batch=one.batch, windlass=windlass, bare=bare)


def as_text(declines: Sequence[Decline]) -> str:
    """Every window, pinned and not."""
    head = ("tasks before", "batch", "free/s", "pinned/s", "pinned bare/s", "pinned : free")
    lines = [
        (f"{n * one.window:,}", f"{one.batch:,}", rate(free), rate(windlass), rate(bare), f"{windlass / free:.2f}")
        for one in declines
        for n, (free, windlass, bare) in enumerate(zip(one.free, one.windlass, one.bare, strict=True))
    ]
    slopes = [f"batch {one.batch:,}: {one.nanoseconds_per_dead_entry:,.0f} ns" for one in declines]
    table = columns(head, lines, right=range(6))
    return f"{table}\nEvery task settled before lengthens a claim by: {'; '.join(slopes)}."


def _windows(home: Home, batch: int, window: int, make: Callable[[Home], Cycle], *, pin: bool) -> list[float]:
    home.empty()
    home.fill(WINDOWS * window + 1_000, finished=False)

    def job(_: Ready) -> list[float]:
        cycle = make(home)
        warm_up(cycle)
        with home.pinned() if pin else nullcontext():
            return [drain(cycle, batch, tasks=window).rate for _ in range(WINDOWS)]

    return alone(job)


def _swept(home: Home) -> Cycle:
    """Cycles through a store that a thread of the same process sweeps until the process ends."""
    store = home.store()

    def sweep() -> None:
        while True:
            store.sweep()
            time.sleep(SWEEP_EVERY)

    threading.Thread(target=sweep, daemon=True).start()
    return through(store)


def _bare(home: Home) -> Cycle:
    return home.bare().cycle
