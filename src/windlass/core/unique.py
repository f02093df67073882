"""Unique tasks: while an equal task is queued, or for a period after its submit, no second one is created.

Two tasks are equal if they have the same tenant, queue and handler, and the same unique key, or without one the same
arguments. A store keeps a lock for each such group: the task that holds it, and until when it counts although it has
left the queue. A task that failed, expired or was cancelled never counts. With `debounce`, an equal task that is queued
starts later instead (docs/decisions/0025-unique-tasks.md).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.core.lifecycle import QUEUED, State
from windlass.core.ordering import Queue
from windlass.core.submission import Draft, is_named
from windlass.core.task import Change, Task, TaskId, Unique
from windlass.core.task_update import UpdatedFields, update_fields
from windlass.core.times import Micros, micros, to_datetime

STARTED = frozenset({State.LEASED, State.COMPLETED})
"""The states in which an equal task counts within its period; in those of `QUEUED` it always does."""
MOST = 10
"""Unless a task says it, it is put off for at most this many times its `debounce`."""


class Holder(NamedTuple):
    """The task that holds a lock, until when it counts after it has started, and its state if it is stored."""

    task: TaskId
    until: Micros
    state: State | None

    def counts(self, now: Micros) -> bool:
        """Return True if an equal task is not created now."""
        return self.state in QUEUED or (self.state in STARTED and now < self.until)


class Matched(Struct, frozen=True):
    """The unique tasks of a batch, compared with those that are stored and with each other."""

    same: dict[TaskId, TaskId] = field(default_factory=dict[TaskId, TaskId])
    """Tasks that are not created, each with the one that stands for it."""
    takes: dict[UUID, Draft] = field(default_factory=dict[UUID, Draft])
    """New holders by lock."""
    put_off: dict[TaskId, Draft] = field(default_factory=dict[TaskId, Draft])
    """Queued tasks that start later, each with the last task of the batch that stands behind it."""
    last: dict[TaskId, Draft] = field(default_factory=dict[TaskId, Draft])
    """New tasks that get the arguments of a later one."""

    def to_store(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return the tasks of the batch that are created, unless they are stored already."""
        if not self.same:
            return drafts
        return [_with_args(one, self.last.get(one.id)) for one in drafts if one.id not in self.same]


NOTHING = Matched()


def match(drafts: Sequence[Draft], holders: Mapping[UUID, Holder], known: Container[TaskId], now: Micros) -> Matched:
    """Compare the unique tasks of a batch with the holders of their locks, in order. `known` has what is stored."""
    found = Matched()
    repeated: dict[UUID, TaskId] = {}
    for one in drafts:
        if one.lock is None or one.new.unique is None:
            continue
        if one.id in known:
            # An id that was made for this batch is stored, so an earlier try was committed. It created no task for the
            # equal ones after this one, which may have started since.
            if not is_named(one.new):
                repeated.setdefault(one.lock, one.id)
            continue
        if one.lock in repeated:
            found.same[one.id] = repeated[one.lock]
            continue
        debounce = one.new.unique.debounce
        first = found.takes.get(one.lock)
        if first is not None:
            found.same[one.id] = first.id
            if debounce is not None and one.new.unique.replace_args:
                found.last[first.id] = one
            continue
        holder = holders.get(one.lock)
        if holder is None or not holder.counts(now):
            found.takes[one.lock] = one
            continue
        found.same[one.id] = holder.task
        if debounce is not None and holder.state in QUEUED:
            found.put_off[holder.task] = one
    return found


def until(unique: Unique, now: Micros) -> Micros:
    """Return until when a task that is submitted now counts after it has started."""
    return now + micros(unique.period)


def put_off(task: Task, first_due: Micros, queue: Queue, unique: Unique, now: Micros) -> UpdatedFields:
    """Return the fields of a queued task after an equal one was submitted with `debounce`.

    It starts `debounce` from now, but not later than its longest wait, and never earlier than before. One that waits
    for its retry keeps its time.
    """
    debounce = unique.debounce or timedelta(0)
    longest = MOST * debounce if unique.max_wait is None else unique.max_wait
    due = min(now + micros(debounce), task.submitted + micros(longest))
    if task.state is State.RETRYING or due <= max(now, task.due):
        return update_fields(task, first_due, queue, Change(), now)
    return update_fields(task, first_due, queue, Change(at=to_datetime(due)), now)


def _with_args(one: Draft, later: Draft | None) -> Draft:
    if later is None:
        return one
    return replace(one, new=replace(one.new, args=later.new.args), kept_args=later.kept_args)
