"""What else a cancel would cancel: dependents follow a prerequisite that does not complete.

A caller who is limited to a queue must not stop tasks in other queues. Tasks there may depend on tasks of the caller's
queue, so a cancel is refused if it would reach them. The check is not part of the cancel: a dependent that is submitted
at the same moment is cancelled too.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.call_limits import check_canceled
from windlass.core.task import OnFailure, Task, TaskId
from windlass.errors import Refused
from windlass.operations.access import Access

MAX_CHECKED = 10_000
"""How many tasks are checked before a cancel by a limited caller is refused."""
_DEPENDENTS = 1_000


def check_cascade(access: Access, ids: Sequence[TaskId]) -> None:
    """Refuse a caller who is limited to a queue if cancelling these tasks would cancel others that are hidden."""
    if access.caller.queue is None:
        return
    seen, waiting = set(ids), list(ids)
    while waiting:
        check_canceled()
        if len(seen) > MAX_CHECKED:
            raise _refusal(access, f"The cancel reaches more than {MAX_CHECKED:,} tasks, too many to check.")
        found = _dependents(access, waiting.pop())
        if not all(map(access.caller.can_see, found)):
            raise _refusal(access, "Tasks in other queues depend on it and would be cancelled too.")
        new = [task.id for task in found if task.id not in seen]
        seen.update(new)
        waiting += new


def _dependents(access: Access, id: TaskId) -> list[Task]:
    """Return the unfinished tasks that are cancelled if this one does not complete."""
    around = access.store.neighbourhood(id, limit=_DEPENDENTS).dependents
    if len(around) == _DEPENDENTS:
        raise _refusal(access, f"Task {id} has {_DEPENDENTS:,} dependents or more, too many to check.")
    tasks = access.store.get([each.id for each in around if not each.resolved])
    return [task for task in tasks if task is not None and not task.state.final and task.on_failure is OnFailure.CANCEL]


def _refusal(access: Access, text: str) -> Refused:
    caller = access.caller
    return Refused("forbidden", f"{text} Token {caller.name!r} is limited to the queue {caller.queue}.")
