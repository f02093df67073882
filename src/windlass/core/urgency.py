"""Prerequisites inherit the urgency of the tasks that wait for them.

A task with a priority above 0 or with a deadline lends both to its prerequisites, and they to theirs: a prerequisite
gets the highest priority and the earliest deadline of all tasks that wait for it. Otherwise an urgent task would wait
behind less urgent ones for its prerequisites. A task that has started is not changed.

The tasks of a batch are raised before they are written. Stored ones are raised by the submit that adds the urgent task,
nearest first, up to `MOST_RAISED` lookups. A stored task that is urgent enough already ends the search there. A batch
whose tasks are all stored already raises nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from windlass.core.lifecycle import State
from windlass.core.submission import Draft, Urgency
from windlass.core.task import NewTask, TaskId
from windlass.core.times import Micros, when

MOST_RAISED = 500
"""How many stored tasks one submit looks at."""
_CAN_RISE = frozenset({State.WAITING, State.SCHEDULED, State.RUNNABLE, State.RETRYING})


class Above(NamedTuple):
    """A stored prerequisite."""

    state: State
    urgency: Urgency
    prerequisites: Sequence[TaskId]
    """Those that have not ended."""


def lends_urgency(draft: Draft) -> bool:
    """Return True if a task has an urgency to lend."""
    return bool(draft.prerequisites) and _is_urgent(draft.new)


def _is_urgent(new: NewTask) -> bool:
    return new.raise_prerequisites and (new.priority > 0 or new.deadline is not None)


def spread_urgency(drafts: Sequence[Draft], now: Micros) -> dict[TaskId, Urgency]:
    """Return what the tasks of a batch lend to others, in the batch and outside of it. Empty if none is urgent."""
    if not any(map(lends_urgency, drafts)):
        return {}
    batch = {one.id for one in drafts}
    waiting = Counter(above for one in drafts for above in one.prerequisites if above in batch)
    lent: dict[TaskId, Urgency] = {}
    by_id = {one.id: one for one in drafts}
    ready = [one for one in drafts if not waiting[one.id]]
    while ready:  # Each task after all those that wait for it.
        one = ready.pop()
        urgency = lent.get(one.id)
        if _is_urgent(one.new):
            own = Urgency(one.new.priority, when(one.new.deadline, now, "deadline"))
            urgency = own if urgency is None else urgency.merge(own)
        for above in one.prerequisites:
            if urgency is not None:
                lent[above] = lent[above].merge(urgency) if above in lent else urgency
            if above in batch:
                waiting[above] -= 1
                if not waiting[above]:
                    ready.append(by_id[above])
    return lent


def get_outside(lent: Mapping[TaskId, Urgency], drafts: Sequence[Draft]) -> dict[TaskId, Urgency]:
    """Return what is lent to tasks outside of the batch."""
    own = {one.id for one in drafts} if lent else set[TaskId]()
    return {id: urgency for id, urgency in lent.items() if id not in own}


def find_raised(
    lent: Mapping[TaskId, Urgency], look: Callable[[Sequence[TaskId]], Mapping[TaskId, Above]]
) -> dict[TaskId, Urgency]:
    """Return the stored tasks that become more urgent, with their new urgency. `look` returns stored tasks by id."""
    raised: dict[TaskId, Urgency] = {}
    level, left = dict(lent), MOST_RAISED
    while level and left > 0:
        ids = sorted(level)[:left]
        left -= len(ids)
        found, above = look(ids), dict[TaskId, Urgency]()
        for id in ids:
            task = found.get(id)
            if task is None or task.state not in _CAN_RISE:
                continue
            before = raised.get(id, task.urgency)
            after = before.merge(level[id])
            if after == before:
                continue
            raised[id] = after
            for parent in task.prerequisites:
                above[parent] = above[parent].merge(level[id]) if parent in above else level[id]
        level = above
    return raised
