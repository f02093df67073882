"""How much a run measures: the sizes behind `--quick`, the default and `--full`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

SMALL = {1: 10, 10: 4}
"""Small batches drain this fraction of the tasks."""


class Cell(NamedTuple):
    """One number to measure: claim + settle with this batch size and number of processes."""

    batch: int
    processes: int


class Plan(Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    tasks: int
    """Tasks to claim and settle for each number."""
    rounds: int
    """Rounds of each measurement. The one with the median CPU time counts."""
    batches: tuple[int, ...] = (1, 10, 100, 500)
    processes: tuple[int, ...] = (1, 2)
    finished: tuple[int, ...]
    """Numbers of finished tasks: one condition for each, in addition to none."""
    waiting: int = 0
    """The number of other runnable tasks in the last condition; 0 to leave it out."""
    singles: int
    """Tasks submitted one by one."""
    bulk: int
    """Tasks submitted in each kind of bulk."""
    pinned: Mapping[int, int]
    """Tasks drained under a pinned snapshot, by batch size."""

    def list_cells(self) -> Iterator[Cell]:
        """Yield the cells to measure in each condition."""
        for batch in self.batches:
            for processes in self.processes:
                yield Cell(batch, processes)

    def get_tasks(self, batch: int) -> int:
        """Return the number of tasks to drain in batches of this size."""
        return self.tasks // SMALL.get(batch, 1)


QUICK = Plan(
    tasks=2_000,
    rounds=1,
    batches=(1, 100),
    finished=(5_000,),
    singles=200,
    bulk=10_000,
    pinned={100: 6_000},
)
DEFAULT = Plan(
    tasks=20_000, rounds=3, finished=(100_000,), singles=1_000, bulk=40_000, pinned={100: 60_000, 500: 60_000}
)
FULL = Plan(
    tasks=40_000,
    rounds=3,
    processes=(1, 2, 8),
    finished=(10_000, 100_000, 1_000_000),
    waiting=1_000_000,
    singles=5_000,
    bulk=200_000,
    pinned={100: 120_000, 500: 300_000},
)
