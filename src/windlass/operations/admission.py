"""Refuse tasks with `admit="strict"` whose queue cannot make their deadline at its present rate.

The forecast is that of `core.forecast`, from what the nodes have measured. It is advice and not a reservation: it is
made before the submit, so tasks that others submit in between, or later with a higher priority, may still delay a task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.forecast import forecast_end
from windlass.core.ids import keyed_id
from windlass.core.ordering import Queue
from windlass.core.task import NewTask
from windlass.core.times import Micros, micros, to_datetime, when
from windlass.errors import DeadlineUnreachable, InvalidTask
from windlass.operations.capacity import Capacity, read_capacity
from windlass.operations.explain import COUNTED, read_serving
from windlass.stores.protocol import Store

SECOND = 1_000_000


def asks_for_admission(tasks: Sequence[NewTask]) -> bool:
    """Return True if one of the tasks has `admit="strict"`."""
    return any(new.admit is not None for new in tasks)


def check_admission(store: Store, tasks: Sequence[NewTask]) -> None:
    """Raise `DeadlineUnreachable` for the first task of a batch that would probably miss its deadline.

    A task that is stored already, with the same key or id, is not refused.
    """
    if not asks_for_admission(tasks):
        return
    admission = _Admission(store)
    for index, new in enumerate(tasks):
        if new.admit is not None and new.deadline is None:
            error = InvalidTask(f'admit={new.admit!r} needs a deadline. Pass one too, such as deadline="10m".')
            error.index = index if len(tasks) > 1 else None
            raise error
        if new.admit is not None:
            admission.check(new)
        admission.earlier[new.queue] += 1


class _Admission:
    """The checks of one batch. What they read from the store is read once."""

    def __init__(self, store: Store) -> None:
        self.earlier: Counter[str] = Counter()
        """The tasks of the batch so far, by queue."""
        self._store = store
        self._queues = {queue.name: queue for queue in store.queues()}
        self._capacities: dict[str, Capacity] = {}

    def check(self, new: NewTask) -> None:
        """Raise `DeadlineUnreachable` if the task would probably miss its deadline."""
        refusal = self._find_refusal(new)
        if refusal is not None and not self._is_stored(new):
            raise refusal

    def _find_refusal(self, new: NewTask) -> DeadlineUnreachable | None:
        if new.queue not in self._capacities:
            self._capacities[new.queue] = read_capacity(self._store, new.queue)
        here, queue = self._capacities[new.queue], self._queues.get(new.queue, Queue(name=new.queue))
        deadline = when(new.deadline, here.now, "deadline") or 0
        slack = (deadline - here.now) / SECOND
        begin = _due(new, here.now)
        if queue.is_paused(begin):
            if queue.paused_until is None or queue.paused_until >= deadline:
                until = "" if queue.paused_until is None else f" until {to_datetime(queue.paused_until)}"
                return DeadlineUnreachable(new.queue, slack, f"it is paused{until}")
            begin = queue.paused_until
        if not here.slots:
            return None if self._is_served(new.queue) else DeadlineUnreachable(new.queue, slack, "no worker serves it")
        not_before = (begin - here.now) / SECOND
        if here.seconds is None:
            late = not_before > slack
            return DeadlineUnreachable(new.queue, slack, f"the task may start in {not_before:.1f} s") if late else None
        ahead = self._store.ahead_of_new(
            new.queue, due=_due(new, here.now), priority=new.priority, deadline=deadline, limit=COUNTED
        )
        found = forecast_end(
            ahead + self.earlier[new.queue],
            here.slots,
            here.seconds,
            share=self._get_share(queue, here),
            not_before=not_before,
        )
        if found.ends_in <= slack:
            return None
        return DeadlineUnreachable(
            new.queue, slack, str(found), ends_in=found.ends_in, ahead=found.ahead, rate=found.rate
        )

    def _get_share(self, queue: Queue, here: Capacity) -> float:
        """Return the part of the workers that a queue gets while the other queues with tasks use theirs."""
        busy = [name for name, runnable in here.others.items() if runnable]
        others = sum(self._queues[name].weight if name in self._queues else 1 for name in busy)
        return queue.weight / (queue.weight + others)

    def _is_served(self, queue: str) -> bool:
        """Return True if a live worker serves the queue. Workers over HTTP do not report what they can do."""
        alive = [read_serving(session) for session in self._store.sessions() if not session.lost]
        return any(each.queues is None or queue in each.queues for each in alive)

    def _is_stored(self, new: NewTask) -> bool:
        id = new.id if new.key is None else keyed_id(new.tenant, new.workflow, new.key)
        return id is not None and self._store.get([id]) != [None]


def _due(new: NewTask, now: Micros) -> Micros:
    """Return when a task may start."""
    delay = 0 if new.delay is None else micros(new.delay)
    return max(now + delay, when(new.at, now, "at") or 0)
