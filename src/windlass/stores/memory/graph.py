"""Edges between tasks in the memory store: what the end of a task does to its dependents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from uuid import UUID

from windlass.core.graph import End, unblock, was_taken_down
from windlass.core.lifecycle import State
from windlass.core.task import TaskId
from windlass.core.times import Micros
from windlass.stores.memory.tables import Tables


def resolve(tables: Tables, ended: Iterable[TaskId], now: Micros) -> None:
    """Resolve the edges from those of these tasks that have ended."""
    ends = ((id, tables.end_of(id)) for id in ended)
    resolve_edges(tables, [(id, end) for id, end in ends if end is not None], now)


def resolve_edges(tables: Tables, ended: Sequence[tuple[UUID, End]], now: Micros) -> None:
    """Resolve every open edge from these ends, level by level: a task cancelled here is an end of the next level."""
    while ended:
        reached: dict[TaskId, list[tuple[UUID, End]]] = {}
        for above, end in ended:
            for child in tables.dependents.get(above, ()):
                if not tables.prerequisites[child][above]:
                    tables.prerequisites[child][above] = True
                    reached.setdefault(child, []).append((above, end))
        ended = [(child, End.CANCELLED) for child, ends in reached.items() if _cancels(tables, child, ends, now)]


def _cancels(tables: Tables, child: TaskId, ends: Sequence[tuple[UUID, End]], now: Micros) -> bool:
    """Count these prerequisites of a task as ended. Return True if that cancels the task."""
    task = tables.tasks[child]
    after = unblock(task.state, task.waiting, task.on_failure, ends, due=task.due, now=now, wait=task.wait)
    if after.state is State.CANCELLED and task.state is not State.CANCELLED:
        tables.move(child, after.state, waiting=after.waiting, finished=now, reason=after.reason)
        return True
    tables.move(child, after.state, waiting=after.waiting, due=after.due)
    return False


def taken_down_by(tables: Tables, tasks: Set[TaskId]) -> set[TaskId]:
    """Return the tasks that were cancelled because one of these ended badly, directly or through others.

    A task is left out, with its dependents, if it has another prerequisite that ended badly and is not returned.
    """
    found = set(_below(tables, tasks, lambda id: _is_taken_down(tables, id) and id not in tasks))
    blocked = {id for id in found if _is_kept_down(tables, id, tasks | found)}
    return found - blocked - set(_below(tables, blocked, lambda id: id in found))


def _below(tables: Tables, tasks: Iterable[TaskId], counts: Callable[[TaskId], bool]) -> Iterator[TaskId]:
    """Yield the direct and indirect dependents of these tasks, following only those that count."""
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


def _is_kept_down(tables: Tables, id: TaskId, retried: Set[TaskId]) -> bool:
    """Return True if a prerequisite ended badly or never came, and is not retried."""
    for above, resolved in tables.prerequisites.get(id, {}).items():
        task = tables.tasks.get(TaskId(above))
        if task is None and resolved and above not in tables.workflows:
            return True
        if task is not None and task.state.ended_badly and task.id not in retried:
            return True
    return False
