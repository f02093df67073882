"""Measure the claim loop while an idle reader holds a snapshot, so that dead rows cannot be removed.

Every claimed task leaves a dead entry at the head of the claim index, and every later claim steps over all of them,
unless the maintenance of a sweep prevents it. So one thread sweeps, as a node does. The bare statements do not sweep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from statistics import linear_regression

from msgspec import Struct

from benchmarks.databases import Database
from benchmarks.drain import Cycle, drain, make_cycle, warm_up
from benchmarks.plan import Plan
from benchmarks.processes import Ready, run_alone
from benchmarks.progress import log_progress
from benchmarks.table import Result, format_columns, format_rate

WINDOWS = 6
SWEEP_EVERY = 0.5


class Decline(Struct, frozen=True, kw_only=True):
    """Tasks per second in each window of one drain, in order."""

    batch: int
    window: int
    """Tasks in a window."""
    free: Sequence[float]
    """The store without a pinned snapshot."""
    windlass: Sequence[float]
    bare: Sequence[float]

    @property
    def nanoseconds_per_dead_entry(self) -> float:
        """The time that every settled task adds to a claim."""
        settled = [(n + 0.5) * self.window for n in range(len(self.windlass))]
        per_claim = [self.batch / one * 1e9 for one in self.windlass]
        return linear_regression(settled, per_claim).slope


def measure_declines(database: Database, plan: Plan) -> Iterator[Decline]:
    """Measure one drain for every batch size, in one process."""
    for batch, tasks in plan.pinned.items():
        log_progress(f"{database.name}: pinned snapshot, batch {batch:,}, {tasks:,} tasks")
        window = tasks // WINDOWS
        yield Decline(
            batch=batch,
            window=window,
            free=_measure_windows(database, batch, window, _make_swept_cycle, pin=False),
            windlass=_measure_windows(database, batch, window, _make_swept_cycle, pin=True),
            bare=_measure_windows(database, batch, window, _make_bare_cycle, pin=True),
        )


def summarize(declines: Sequence[Decline]) -> Iterator[Result]:
    """Yield the last window of each drain, for the store's table."""
    for one in declines:
        after = f"pinned, after {one.window * (WINDOWS - 1):,}"
        windlass, bare = one.windlass[-1], one.bare[-1]
        yield Result(what="claim + settle", condition=after, batch=one.batch, windlass=windlass, bare=bare)


def format_declines(declines: Sequence[Decline]) -> str:
    """Return a table of all windows."""
    head = ("tasks before", "batch", "free/s", "pinned/s", "pinned bare/s", "pinned : free")
    lines = [
        (
            f"{n * one.window:,}",
            f"{one.batch:,}",
            format_rate(free),
            format_rate(windlass),
            format_rate(bare),
            f"{windlass / free:.2f}",
        )
        for one in declines
        for n, (free, windlass, bare) in enumerate(zip(one.free, one.windlass, one.bare, strict=True))
    ]
    slopes = [f"batch {one.batch:,}: {one.nanoseconds_per_dead_entry:,.0f} ns" for one in declines]
    table = format_columns(head, lines, right=range(6))
    return f"{table}\nEach settled task makes a claim longer by: {'; '.join(slopes)}."


def _measure_windows(
    database: Database, batch: int, window: int, make: Callable[[Database], Cycle], *, pin: bool
) -> list[float]:
    database.empty()
    database.fill(WINDOWS * window + 1_000, finished=False)

    def job(_: Ready) -> list[float]:
        cycle = make(database)
        warm_up(cycle)
        with database.hold_snapshot() if pin else nullcontext():
            return [drain(cycle, batch, tasks=window).rate for _ in range(WINDOWS)]

    return run_alone(job)


def _make_swept_cycle(database: Database) -> Cycle:
    """Return a cycle through a store that a thread of this process sweeps."""
    store = database.store()

    def sweep() -> None:
        while True:
            store.sweep()
            time.sleep(SWEEP_EVERY)

    threading.Thread(target=sweep, daemon=True).start()
    return make_cycle(store)


def _make_bare_cycle(database: Database) -> Cycle:
    return database.bare().cycle
