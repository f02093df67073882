"""The sizes of a run."""

from __future__ import annotations

from msgspec import Struct


class Plan(Struct, frozen=True, kw_only=True):
    """The sizes of one run."""

    rounds: int
    """Rounds, in which all systems take turns. Crashes and memory are measured once."""
    tasks: int
    """Tasks to drain, and to enqueue in bulk."""
    batch: int = 1_000
    singles: int
    """Single calls of one client. Concurrent callers together make four times as many."""
    callers: int = 16
    paced: int
    """Tasks enqueued with pauses on an idle system."""
    pause: float = 0.02
    fan: int
    chain: int
    long: float = 5.0
    """Seconds that the task runs whose process is killed."""
    cap: float
    """The longest wait until that task runs again."""
    patience: float
    """Seconds after which a measurement fails."""


QUICK = Plan(rounds=1, tasks=10_000, singles=100, paced=25, fan=50, chain=20, cap=20, patience=30)
DEFAULT = Plan(rounds=3, tasks=40_000, singles=4_000, paced=300, fan=1_000, chain=300, cap=120, patience=600)
