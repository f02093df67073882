"""How much a run measures: the sizes behind `--quick`, the default and `--full`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

AIMED_AT = 100
"""The batch size that has a target."""


class Cell(NamedTuple):
    """One number to measure: claim + settle with this batch size and number of processes."""

    batch: int
    processes: int


class Plan(Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    seconds: float
    """Seconds that each process claims and settles."""
    rounds: int
    """Rounds of the measurements that have a target. Windlass and bare alternate; the best round counts."""
    batches: tuple[int, ...] = (1, 10, 100, 1_000)
    processes: tuple[int, ...] = (1, 2, 8)
    finished: tuple[int, ...]
    """Numbers of finished rows: one condition for each, in addition to empty tables."""
    all_cells: bool = False
    """True to measure all cells in every condition; else only the important ones with finished rows."""
    singles: int
    """Tasks submitted one by one."""
    bulk: int
    """Tasks submitted in each kind of bulk."""
    pinned: Mapping[int, int]
    """Tasks drained under a pinned snapshot, by batch size."""

    def list_cells(self, finished: int) -> Iterator[Cell]:
        """Yield the cells to measure with this many finished rows."""
        for batch in self.batches:
            for processes in self.processes:
                if not finished or self.all_cells or processes == 1 or batch == AIMED_AT:
                    yield Cell(batch, processes)

    def get_rounds(self, cell: Cell) -> int:
        """Return the number of rounds of a cell."""
        return self.rounds if cell.processes == 1 and cell.batch >= AIMED_AT else 1


QUICK = Plan(
    seconds=0.25,
    rounds=1,
    batches=(1, 100, 1_000),
    processes=(1, 2),
    finished=(20_000,),
    singles=200,
    bulk=10_000,
    pinned={100: 12_000},
)
DEFAULT = Plan(
    seconds=0.8, rounds=3, finished=(100_000, 1_000_000), singles=1_500, bulk=40_000, pinned={100: 60_000, 500: 60_000}
)
FULL = Plan(
    seconds=2.0,
    rounds=3,
    finished=(10_000, 100_000, 1_000_000),
    all_cells=True,
    singles=5_000,
    bulk=200_000,
    pinned={100: 120_000, 500: 300_000},
)
