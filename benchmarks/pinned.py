"""Measure the claim loop while an idle reader holds a snapshot, so that dead rows cannot be removed.

Every claimed task leaves a dead entry at the head of the claim index, and every later claim steps over all of them,
unless the maintenance of a sweep prevents it. So one thread sweeps, as a node does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise

from msgspec import Struct

from benchmarks.cost import Cost, subtract
from benchmarks.databases import Database
from benchmarks.drain import drain, make_cycle, mark, warm_up
from benchmarks.plan import Plan
from benchmarks.processes import Ready, run_alone
from benchmarks.progress import log_progress
from benchmarks.table import format_columns, format_markdown, format_microseconds
from windlass.stores.protocol import Store

WINDOWS = 6
SWEEP_EVERY = 0.5


class Decline(Struct, frozen=True, kw_only=True):
    """The cost of each window of two drains, in order."""

    batch: int
    window: int
    """Tasks in a window."""
    free: Sequence[Cost]
    """The drain without a pinned snapshot."""
    pinned: Sequence[Cost]


def measure_declines(database: Database, plan: Plan) -> Iterator[Decline]:
    """Measure two drains for every batch size, in one process."""
    for batch, tasks in plan.pinned.items():
        log_progress(f"{database.name}: pinned snapshot, batch {batch:,}, {tasks:,} tasks")
        window = tasks // WINDOWS
        yield Decline(
            batch=batch,
            window=window,
            free=_measure_windows(database, batch, window, pin=False),
            pinned=_measure_windows(database, batch, window, pin=True),
        )


def format_declines(declines: Sequence[Decline], *, markdown: bool = False) -> str:
    """Return a table of all windows."""
    head = ("tasks before", "batch", "free µs", "pinned µs", "free tasks/s", "pinned tasks/s", "pinned : free")
    lines = [
        (
            f"{n * one.window:,}",
            f"{one.batch:,}",
            *(format_microseconds(cost.microseconds.total) for cost in (free, pinned)),
            *(f"{cost.rate:,.0f}" for cost in (free, pinned)),
            f"{pinned.rate / free.rate:.2f}",
        )
        for one in declines
        for n, (free, pinned) in enumerate(zip(one.free, one.pinned, strict=True))
    ]
    return (format_markdown if markdown else format_columns)(head, lines, right=range(7))


def _measure_windows(database: Database, batch: int, window: int, *, pin: bool) -> list[Cost]:
    database.empty()
    database.fill(WINDOWS * (window + batch) + 100, finished=False)

    def job(_: Ready) -> list[Cost]:
        store = database.store()
        cycle = make_cycle(store)
        warm_up(cycle)
        threading.Thread(target=_sweep, args=[store], daemon=True).start()
        with database.hold_snapshot() if pin else nullcontext():
            marks = [mark(database.server_pid, 0)]
            for _ in range(WINDOWS):
                marks.append(mark(database.server_pid, marks[-1].tasks + drain(cycle, batch, window)))
        return [subtract(after, before) for before, after in pairwise(marks)]

    return run_alone(job)


def _sweep(store: Store) -> None:
    while True:
        store.sweep()
        time.sleep(SWEEP_EVERY)
