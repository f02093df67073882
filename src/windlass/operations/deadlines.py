"""Which unfinished tasks have missed their deadline, or will if their queue continues at its present rate."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.lifecycle import State
from windlass.core.task import Task
from windlass.core.times import Micros
from windlass.operations.access import Access
from windlass.operations.capacity import read_capacity
from windlass.operations.redact import redact_task
from windlass.stores.protocol import Filter

EXAMINED = 500
"""How many of the newest runnable and running tasks are examined."""
SECOND = 1_000_000
_STATES = frozenset({State.RUNNABLE, State.LEASED, State.RETRYING})


class LateTask(Struct, frozen=True, kw_only=True):
    """A task that is late, or will be."""

    task: Task
    late: Micros
    """By how long it will miss its deadline, or has missed it so far; at least 0."""
    missed: bool
    """True if the deadline has passed."""


class Deadlines(Struct, frozen=True, kw_only=True):
    """The tasks at risk, the latest first."""

    late: list[LateTask]
    complete: bool
    """False if more tasks are unfinished than were examined."""


def find_late(access: Access, now: Micros) -> Deadlines:
    """Return the tasks that have missed their deadline, or would if all runnable tasks of their queue ran first."""
    filter = access.narrow(Filter(states=_STATES))
    if filter is None:
        return Deadlines(late=[], complete=True)
    page = access.store.find(filter, limit=EXAMINED)
    due = [task for task in page.tasks if task.deadline is not None]
    rest = {queue: _time_left(access, queue) for queue in {task.queue for task in due}}
    found = [late for task in due if (late := _judge(access, task, now, rest[task.queue])) is not None]
    return Deadlines(late=sorted(found, key=lambda each: -each.late), complete=page.after is None)


def _judge(access: Access, task: Task, now: Micros, rest: tuple[Micros, Micros]) -> LateTask | None:
    waits, runs = rest
    start = max(now, task.due) + waits if task.state is not State.LEASED else (task.claimed or now)
    deadline = task.deadline or 0
    late = max(now, start + runs) - deadline
    if late <= 0:
        return None
    return LateTask(task=redact_task(task, access.catalog), late=late, missed=deadline < now)


def _time_left(access: Access, queue: str) -> tuple[Micros, Micros]:
    """Return how long a queue needs for its runnable tasks, and for one task; 0 if that was not measured."""
    here = read_capacity(access.store, queue)
    if here.seconds is None or not here.slots:
        return 0, 0
    waiting = sum(
        count.tasks for count in access.store.counts() if count.queue == queue and count.state is State.RUNNABLE
    )
    return round(max(0, waiting) * here.seconds / here.slots * SECOND), round(here.seconds * SECOND)
