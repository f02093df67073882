"""How much a run measures: the sizes behind `--quick` and the default."""

from __future__ import annotations

from msgspec import Struct

WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "memory")


class Plan(Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    rounds: int
    """How often everything is measured, all systems in turns; the median counts. W6 and memory once only."""
    singles: int
    """W1: single calls of one client."""
    callers: int = 16
    """W1: how many call at once; together they make four times as many calls."""
    bulk: int
    """W1b: tasks that are enqueued in bulk."""
    batch: int = 1_000
    drain: int
    """W2: tasks that wait when the workers start."""
    paced: int
    """W3: tasks that are enqueued while nothing else happens."""
    pause: float = 0.02
    both: int
    """W4: tasks of one producer while the workers run."""
    fan: int
    chain: int
    long: float = 5.0
    """W6: seconds that the task takes during which its process is killed."""
    cap: float
    """W6: how long is waited until it runs again."""
    patience: float
    """After so many seconds without an end a measurement has failed."""


QUICK = Plan(rounds=1, singles=200, bulk=2_000, drain=1_000, paced=25, both=300, fan=50, chain=20, cap=20, patience=30)
DEFAULT = Plan(
    rounds=3,
    singles=2_000,
    bulk=20_000,
    drain=20_000,
    paced=300,
    both=10_000,
    fan=1_000,
    chain=300,
    cap=120,
    patience=600,
)
