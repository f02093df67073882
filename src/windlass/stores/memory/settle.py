"""The end of an attempt in the memory store, and how the end of a task reaches those that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from uuid import UUID

from windlass.core.fingerprint import error_group
from windlass.core.graph import End, unblock, was_taken_down
from windlass.core.lifecycle import FINAL, State
from windlass.core.settlement import Settlement, apply_store_facts
from windlass.core.task import Attempt, Task, TaskId
from windlass.core.times import Micros
from windlass.stores.memory.tables import Tables
from windlass.stores.protocol import Log


def end_attempt(tables: Tables, task: Task, settlement: Settlement, now: Micros) -> State:
    """Write the end of an attempt: its record and the task. The caller resolves what waited for it."""
    assert task.session is not None
    assert task.claimed is not None
    end = apply_store_facts(task, settlement, now)
    if end.charged:
        tables.attempts[task.id].append(
            Attempt(
                fence=task.fence,
                session=task.session,
                started=task.claimed,
                ended=now,
                state=end.state,
                error=end.error,
            )
        )
    if end.log:
        tables.logs[task.id].append(Log(task.fence, end.log))
    tables.cancel_by.pop(task.id, None)
    if end.state is State.FAILED:
        tables.error_groups[task.id] = error_group(end.error, end.reason)
    tables.move(
        task.id,
        end.state,
        due=task.due if end.state in FINAL else now + end.delay,
        finished=now if end.state in FINAL else None,
        attempts=task.attempts + end.attempts,
        crashes=task.crashes + end.crashes,
        losses=task.losses + end.losses,
        result=end.result,
        reason=end.reason,
    )
    return end.state


def resolve(tables: Tables, ended: Iterable[TaskId], now: Micros) -> None:
    """Tell those that wait for these tasks how they ended; tasks that have not ended are passed over."""
    ends = ((id, tables.end_of(id)) for id in ended)
    resolve_edges(tables, [(id, end) for id, end in ends if end is not None], now)


def resolve_edges(tables: Tables, ended: Sequence[tuple[UUID, End]], now: Micros) -> None:
    """Resolve every open edge from these, level by level: a task cancelled here ends those that wait for it."""
    while ended:
        reached: dict[TaskId, list[tuple[UUID, End]]] = {}
        for above, end in ended:
            for child in tables.dependents.get(above, ()):
                if not tables.prerequisites[child][above]:
                    tables.prerequisites[child][above] = True
                    reached.setdefault(child, []).append((above, end))
        ended = [(child, End.CANCELLED) for child, ends in reached.items() if _cancels(tables, child, ends, now)]


def _cancels(tables: Tables, child: TaskId, ends: Sequence[tuple[UUID, End]], now: Micros) -> bool:
    """Count these prerequisites of a task as ended; whether that cancelled it."""
    task = tables.tasks[child]
    after = unblock(task.state, task.waiting, task.on_failure, ends, due=task.due, now=now)
    if after.state is State.CANCELLED and task.state is not State.CANCELLED:
        tables.move(child, after.state, waiting=after.waiting, finished=now, reason=after.reason)
        return True
    tables.move(child, after.state, waiting=after.waiting, due=after.due)
    return False


def taken_down_by(tables: Tables, tasks: Set[TaskId]) -> set[TaskId]:
    """What was cancelled because one of these ended badly, and so on down.

    Left out is a task that another prerequisite keeps down, one that ended badly and is not among them; and whatever
    is below it.
    """
    found = set(_below(tables, tasks, lambda id: _is_taken_down(tables, id) and id not in tasks))
    blocked = {id for id in found if _is_kept_down(tables, id, tasks | found)}
    return found - blocked - set(_below(tables, blocked, lambda id: id in found))


def _below(tables: Tables, tasks: Iterable[TaskId], counts: Callable[[TaskId], bool]) -> Iterator[TaskId]:
    """The dependents that count, of these tasks and of each other."""
    stack, seen = list(tasks), set[TaskId]()
    while stack:
        for child in tables.dependents.get(stack.pop(), ()):
            if child not in seen and counts(child):
                seen.add(child)
                stack.append(child)
                yield child


def _is_taken_down(tables: Tables, id: TaskId) -> bool:
    task = tables.tasks[id]
    return was_taken_down(task.state, task.reason)


def _is_kept_down(tables: Tables, id: TaskId, coming_back: Set[TaskId]) -> bool:
    """Whether a prerequisite ended badly, or never came, and does not come back."""
    for above, resolved in tables.prerequisites.get(id, {}).items():
        task = tables.tasks.get(TaskId(above))
        if task is None and resolved and above not in tables.workflows:
            return True
        if task is not None and task.state.ended_badly and task.id not in coming_back:
            return True
    return False
