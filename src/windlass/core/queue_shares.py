"""How a pool divides its workers between its queues: by weight, with the rules of `core.fairness` for tenants.

A queue is charged the run time of its tasks, divided by its weight: measured for those that have ended, expected for
those that have not. The queue that was charged least comes first. A queue that had no tasks comes back at the lowest
charge of those that had some, so it has no credit. When a claim finds no more tasks, workers are idle, and all charges
become equal: what nobody else wanted is not paid back.

The node cannot see which queues have tasks; it learns it from its claims. A queue is *busy* if the latest claim that
asked it got as many of its tasks as it asked for. Each claim asks the others first, for no more than their share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import NamedTuple

FIRST_RUN_SECONDS = 0.01
"""The expected run time of a task before one has run."""
_SMOOTHING = 0.1


class ClaimPlan(NamedTuple):
    """How the next claim asks the queues of a pool."""

    queues: Sequence[str]
    """The order in which it asks them."""
    each: Mapping[str, int] | None
    """How many tasks of each queue to take before any queue gets more; None if no queue is busy."""
    limit: int


class _Use:
    """What a queue has used."""

    __slots__ = ("charged", "mean", "running")

    def __init__(self) -> None:
        self.charged = 0.0
        """Seconds of run time divided by the weight, of ended tasks."""
        self.running = 0
        """The tasks that were claimed and have not ended."""
        self.mean = 0.0
        """The expected run time in seconds; 0 before a task has ended."""

    def note(self, seconds: float, tasks: int) -> None:
        """Update the expected run time."""
        news = 1.0 if self.mean == 0 else 1 - (1 - _SMOOTHING) ** tasks
        self.mean += news * (seconds / tasks - self.mean)


class QueueShares:
    """What the queues of one pool have used on this node, and whose turn it is."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}
        self._all = _Use()
        self._weights: Mapping[str, int] = {}
        self._busy: set[str] = set()
        self._planned: dict[str, float] = {}
        """The charges with which the latest plan was made."""

    @property
    def is_contended(self) -> bool:
        """True if the latest claims found a queue that may have more tasks than the workers have room for."""
        return bool(self._busy)

    def plan(self, weights: Mapping[str, int], limit: int) -> ClaimPlan:
        """Plan a claim of up to `limit` tasks. `weights` names all queues of the pool."""
        self._weights = weights
        self._planned = charges = self._get_charges()
        order = sorted(weights, key=lambda queue: (queue in self._busy, charges[queue]))
        busy = [queue for queue in order if queue in self._busy]
        if not busy:
            return ClaimPlan(order, None, limit)
        # What is left for a queue without tasks would cost a second look at all queues. So the shares of the busy ones
        # leave nothing over.
        each = {queue: max(1, share) for queue, share in self._divide(order, charges, limit).items()}
        each |= self._divide(busy, charges, limit)
        return ClaimPlan(order, each, limit)

    def record_claimed(self, plan: ClaimPlan, taken: Mapping[str, int]) -> None:
        """Record how many tasks of each queue a planned claim got."""
        before, found_all = 0, sum(taken.values()) < plan.limit
        for queue in plan.queues:
            got = taken.get(queue, 0)
            asked = min(plan.limit if plan.each is None else plan.each[queue], plan.limit - before)
            if found_all or got < asked:
                self._busy.discard(queue)
            elif asked or got:
                self._busy.add(queue)
            before += got
            if got:
                use = self._get_use(queue)
                use.charged += max(0.0, self._planned[queue] - self._get_charge(queue))
                use.running += got

    def record_completed(self, ended: Iterable[tuple[str, float]]) -> None:
        """Record attempts that have ended: the queue of each, and the seconds that it ran."""
        sums: dict[str, tuple[float, int]] = {}
        for queue, seconds in ended:
            before, tasks = sums.get(queue, (0.0, 0))
            sums[queue] = before + seconds, tasks + 1
        for queue, (seconds, tasks) in sums.items():
            self._record(queue, seconds, tasks)
            self._get_use(queue).note(seconds, tasks)
            self._all.note(seconds, tasks)

    def record_released(self, queues: Iterable[str], seconds: float = 0.0) -> None:
        """Record tasks that were given back or lost. They do not count for the expected run time."""
        for queue in queues:
            self._record(queue, seconds, 1)

    def _record(self, queue: str, seconds: float, tasks: int) -> None:
        use = self._get_use(queue)
        use.running = max(0, use.running - tasks)
        use.charged += seconds / self._weights.get(queue, 1)

    def _get_charges(self) -> dict[str, float]:
        """Return the charges of all queues. Those that are not busy begin where the busy ones are, or are all equal."""
        charges = {queue: self._get_charge(queue) for queue in self._weights}
        busy = [charge for queue, charge in charges.items() if queue in self._busy]
        begin = min(busy) if busy else max(charges.values())
        return {queue: one if queue in self._busy else max(one, begin) for queue, one in charges.items()}

    def _get_use(self, queue: str) -> _Use:
        return self._uses.setdefault(queue, _Use())

    def _get_charge(self, queue: str) -> float:
        use = self._get_use(queue)
        return use.charged + use.running / self._get_rate(queue)

    def _get_rate(self, queue: str) -> float:
        """Return how many tasks of a queue are charged one second."""
        expected = self._get_use(queue).mean or self._all.mean or FIRST_RUN_SECONDS
        return self._weights.get(queue, 1) / expected

    def _divide(self, queues: Sequence[str], charges: Mapping[str, float], limit: int) -> dict[str, int]:
        """Return how many tasks each queue may take so that their charges become as equal as possible."""
        rates = {queue: self._get_rate(queue) for queue in queues}
        level = _find_level([(charges[queue], rates[queue]) for queue in queues], limit)
        counts = {queue: max(0, floor((level - charges[queue]) * rates[queue])) for queue in queues}
        for _ in range(limit - sum(counts.values())):
            lowest = min(queues, key=lambda queue: charges[queue] + counts[queue] / rates[queue])
            counts[lowest] += 1
        return counts


def _find_level(queues: Sequence[tuple[float, float]], tasks: int) -> float:
    """Return the charge up to which queues can be filled with this many tasks. Each queue has a charge and a rate."""
    level, rates, full = 0.0, 0.0, 0.0
    ordered = sorted(queues)
    for number, (charge, rate) in enumerate(ordered, start=1):
        rates, full = rates + rate, full + charge * rate
        level = (tasks + full) / rates
        if number == len(ordered) or level <= ordered[number][0]:
            break
    return level
