"""Steps that wait for an event or a time, in the memory store (`core.waits`)."""

from __future__ import annotations

from windlass.core.lifecycle import State
from windlass.core.task import Attempt, Task, TaskId
from windlass.core.times import Micros
from windlass.core.waits import BY_THE_STORE, STORE_SESSION, ends_well, timed_out
from windlass.stores.memory.tables import Tables


def end_wait(tables: Tables, id: TaskId, now: Micros) -> None:
    """End a wait whose time is over. The caller resolves the edges from it."""
    wait = tables.tasks[id].wait
    assert wait is not None
    if ends_well(wait):
        complete_wait(tables, id, wait.value, now)
    else:
        tables.move(id, State.EXPIRED, finished=now, reason=timed_out(wait))


def complete_wait(tables: Tables, id: TaskId, value: str | None, now: Micros) -> Task:
    """Complete a wait that has begun. The caller resolves the edges from it."""
    task = tables.move(id, State.COMPLETED, finished=now, claimed=now, result=value, **BY_THE_STORE)
    record_end(tables, task, now)
    return task


def record_end(tables: Tables, task: Task, now: Micros) -> None:
    """Record a completed wait as an attempt of the store itself."""
    tables.point(task.queue, now).completed += 1
    tables.attempts[task.id].append(
        Attempt(fence=task.fence, session=STORE_SESSION, started=now, ended=now, state=State.COMPLETED)
    )
