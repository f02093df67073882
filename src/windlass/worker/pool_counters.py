"""What a pool has done so far: counters that only grow, for the controller and the metrics.

Kept under the crew's lock, a few additions for each task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil

from windlass.core.lifecycle import State
from windlass.core.settlement import Crashed, Outcome, Raised, Released, settle
from windlass.core.task import Claim

STARTS = 20
"""Worker starts by which the next one is judged."""
QUANTILE = 0.8
FIRST_START = 0.05
"""Seconds that a start is taken to last before one was measured: a fork of a warm parent."""
SECOND = 1_000_000


class PoolCounters:
    """The counters of one pool on one node."""

    def __init__(self, goal: float) -> None:
        self.goal = goal
        """Seconds after which a start counts as late."""
        self.claimed = self.returned = self.started = self.late = 0
        self.ended = self.errors = self.retrying = self.deaths = 0
        self.busy = 0.0
        self.downstreams: deque[str | None] = deque(maxlen=100)
        """What the latest tasks needed."""
        self._starts: deque[float] = deque(maxlen=STARTS)

    def record_claimed(self, claims: Sequence[Claim]) -> None:
        """These were leased."""
        self.claimed += len(claims)

    def record_started(self, claim: Claim) -> None:
        """This one was given to a worker."""
        task = claim.task
        self.started += 1
        self.late += (task.claimed or task.due) - task.due > self.goal * SECOND
        self.downstreams.append(task.rules.downstream)

    def record_ended(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """An attempt has ended, or was not made."""
        self.busy += seconds
        if isinstance(outcome, Released):
            self.returned += not outcome.delay
            return
        self.ended += 1
        if isinstance(outcome, Raised | Crashed):
            state = settle(claim.task, outcome, _even).state
            self.errors += 1
            self.retrying += state is State.RETRYING
            self.returned += state is State.RUNNABLE

    def worker_started(self, seconds: float) -> None:
        """A worker was ready so long after it was ordered."""
        self._starts.append(seconds)

    @property
    def start_delay(self) -> float:
        """How long most starts have lately taken."""
        if not self._starts:
            return FIRST_START
        return sorted(self._starts)[ceil(QUANTILE * len(self._starts)) - 1]

    @property
    def downstream(self) -> str:
        """What all of the latest tasks needed, if that was one and the same."""
        names = {*self.downstreams}
        return (names.pop() or "") if len(names) == 1 else ""


def _even() -> float:
    return 0.5
