"""The sizes of a run: `--quick` and the default."""

from __future__ import annotations

from msgspec import Struct

WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "memory")


class Plan(Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    rounds: int
    """Rounds, in which all systems take turns; the median counts. W6 and memory are measured once."""
    singles: int
    """W1: single calls of one client."""
    callers: int = 16
    """W1: concurrent callers. Together they make four times as many calls."""
    bulk: int
    """W1b: tasks enqueued in bulk."""
    batch: int = 1_000
    drain: int
    """W2: tasks that wait when the workers start."""
    paced: int
    """W3: tasks enqueued with pauses on an idle system."""
    pause: float = 0.02
    both: int
    """W4: tasks of one producer while the workers run."""
    fan: int
    chain: int
    long: float = 5.0
    """W6: seconds that the task runs whose process is killed."""
    cap: float
    """W6: the longest wait until the task runs again."""
    patience: float
    """Seconds after which a measurement fails."""


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
