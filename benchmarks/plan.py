"""How much a run measures: the sizes behind `--quick`, the default and `--full`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

AIMED_AT = 100
"""The batch size for which there is an aim."""


class Cell(NamedTuple):
    """One number to be measured: claim + settle in batches of this size, in so many processes."""

    batch: int
    processes: int


class Plan(Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    seconds: float
    """How long each process claims and settles."""
    rounds: int
    """How often what an aim is held against is measured, Windlass and bare in turns; the best round counts."""
    batches: tuple[int, ...] = (1, 10, 100, 1_000)
    processes: tuple[int, ...] = (1, 2, 8)
    finished: tuple[int, ...]
    """How many finished rows stand in the tables, one condition each, after the empty one."""
    whole: bool = False
    """Whether every condition has all cells, or all but the empty one only the telling ones."""
    singles: int
    """How many tasks are submitted one by one."""
    bulk: int
    """How many tasks are submitted in each kind of bulk."""
    pinned: Mapping[int, int]
    """How many tasks are drained under a pinned snapshot, by the size of the claim."""

    def cells(self, finished: int) -> Iterator[Cell]:
        """What is measured with so many finished rows in the tables."""
        for batch in self.batches:
            for processes in self.processes:
                if not finished or self.whole or processes == 1 or batch == AIMED_AT:
                    yield Cell(batch, processes)

    def rounds_of(self, cell: Cell) -> int:
        """How often a cell is measured."""
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
    whole=True,
    singles=5_000,
    bulk=200_000,
    pinned={100: 120_000, 500: 300_000},
)
