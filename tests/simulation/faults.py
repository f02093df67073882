"""What goes wrong in one run: drawn from its seed, each kind of fault only in some of the runs (swarm testing).

A run that has every fault at once hides bugs: nothing works long enough for two things to meet.
"""

from __future__ import annotations

from random import Random

from msgspec import Struct

CHANCES = {
    "refused": 0.05,
    "lost_answers": 0.08,
    "late_commits": 0.05,
    "slow_store": 0.05,
    "lost_hints": 0.5,
}
"""How likely a store call has the fault, in a run that has it."""

EVENTS = ("outages", "partitions", "pauses", "kills", "drains", "resizes", "parent_deaths", "clock_jumps")
"""Faults that happen to nodes and to the store from time to time."""

HANDLERS = {"raises": 0.25, "crashes": 0.12, "hangs": 0.04, "stubborn": 0.3, "slow": 0.15, "exits": 0.05}
"""How likely an attempt behaves badly, in a run in which handlers do."""

WORKERS = {"stalled_workers": 0.05, "failed_forks": 0.1}

CLOCKS = ("skew", "drift")

KINDS = (*CHANCES, *EVENTS, *HANDLERS, *WORKERS, *CLOCKS)


class Faults(Struct, kw_only=True):
    """The faults of one run. Chances that a fault does not have are 0."""

    kinds: frozenset[str]
    until: int
    """When faults end, in microseconds from the start."""

    def chance(self, kind: str) -> float:
        """Return how likely a fault is when it could happen."""
        if kind not in self.kinds:
            return 0.0
        return CHANCES.get(kind) or HANDLERS.get(kind) or WORKERS.get(kind) or 0.0

    def without(self, kind: str) -> Faults:
        """Return the same faults without one kind."""
        return Faults(kinds=self.kinds - {kind}, until=self.until)


def draw_faults(random: Random, until: int) -> Faults:
    """Draw a subset of all kinds: small in most runs."""
    share = random.choice((0.0, 0.15, 0.2, 0.3, 0.4, 0.6))
    return Faults(kinds=frozenset(kind for kind in KINDS if random.random() < share), until=until)
