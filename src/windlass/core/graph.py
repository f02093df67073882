"""Prerequisites: is a batch a proper graph, and what does the end of a prerequisite do to those that wait for it.

Every walk is a loop over lists, never recursion: a chain of a million tasks is an ordinary input.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from windlass.core.lifecycle import State
from windlass.core.task import OnFailure, TaskId
from windlass.core.times import Micros
from windlass.errors import CycleFound, DuplicateTask, InvalidTask

Node = TypeVar("Node", bound=Hashable)

_BECAUSE = re.compile("prerequisite .+ ended .+")
MAX_PREREQUISITES = 100_000
CYCLE_BUDGET = 4_096
"""How many tasks a submit looks at before it leaves the cycle search to the sweep."""
MAX_PLACEHOLDERS = 10_000
"""How many tasks of one workflow may be named ahead of time."""


class End(StrEnum):
    """How something that tasks wait for has ended: a task, a placeholder, or the sealing of a workflow."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    MISSING = "missing"
    """A placeholder whose task never came."""
    SEALED = "sealed"
    """A workflow that was filled in parts is now whole."""

    @property
    def good(self) -> bool:
        """Whether those that wait may go on whatever their policy."""
        return self in (End.COMPLETED, End.SEALED)


class Unblocked(NamedTuple):
    """What the ends of some prerequisites make of a task that waited for them."""

    state: State
    waiting: int
    reason: str | None
    due: Micros
    """When it may run next: of one that has just become runnable, not before this moment, which is when it could."""


def check_graph(prerequisites: Mapping[Node, Sequence[Node]]) -> None:
    """Refuse a batch in which a task waits for itself, directly or through others. Names outside are not looked at.

    O(tasks + prerequisites).
    """
    ring = find_any_cycle(prerequisites)
    if ring:
        raise CycleFound(ring)


def check_unique(ids: Sequence[Node]) -> None:
    """Refuse a batch that names a task twice."""
    if len(set(ids)) < len(ids):
        seen: set[Node] = set()
        raise DuplicateTask(list(dict.fromkeys(id for id in ids if id in seen or seen.add(id))))


def check_fan_in(owner: object, prerequisites: Sequence[object]) -> None:
    """Refuse a task with more prerequisites than a store will carry."""
    if len(prerequisites) > MAX_PREREQUISITES:
        raise InvalidTask(
            f"prerequisites of {owner!r}: {len(prerequisites):,} given, at most {MAX_PREREQUISITES:,} are taken; "
            "put a joining task in between"
        )


def unblock(
    state: State,
    waiting: int,
    on_failure: OnFailure,
    ended: Iterable[tuple[object, End]],
    *,
    due: Micros,
    now: Micros,
) -> Unblocked:
    """What a task becomes when these of its prerequisites have ended, each counted exactly once.

    A task that has itself ended keeps its state (a cancelled one is not brought back by its last prerequisite), but
    its count goes on, so that an operator's retry knows what is still open.
    """
    ended = list(ended)
    waiting -= len(ended)
    if state is not State.WAITING:
        return Unblocked(state, waiting, None, due)
    bad = min(((str(prerequisite), end) for prerequisite, end in ended if not end.good), default=None)
    if bad is not None and on_failure is OnFailure.CANCEL:
        return Unblocked(State.CANCELLED, waiting, prerequisite_reason(*bad), due)
    if waiting > 0:
        return Unblocked(State.WAITING, waiting, None, due)
    return Unblocked(State.SCHEDULED if due > now else State.RUNNABLE, waiting, None, max(due, now))


def prerequisite_reason(prerequisite: object, end: End) -> str:
    """The reason recorded when a prerequisite's bad end cancels a task."""
    return f"prerequisite {prerequisite} ended {end.value}"


def was_taken_down(state: State, reason: str | None) -> bool:
    """Whether a task was cancelled because a prerequisite ended badly, and not by a person."""
    return state is State.CANCELLED and reason is not None and _BECAUSE.fullmatch(reason) is not None


def find_cycle(
    task: TaskId, above: Callable[[TaskId], Iterable[TaskId]], budget: int = CYCLE_BUDGET
) -> tuple[list[TaskId] | None, bool]:
    """The ring that `task` closes, or None; and whether everything above it was seen within `budget` tasks."""
    came_from: dict[TaskId, TaskId] = {}
    queue = deque([task])
    while queue:
        here = queue.popleft()
        for there in above(here):
            if there == task:
                return _path(task, here, came_from), True
            if there not in came_from:
                if len(came_from) >= budget:
                    return None, False
                came_from[there] = here
                queue.append(there)
    return None, True


def find_any_cycle(prerequisites: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The members of one ring among tasks that wait for each other; empty when there is none."""
    stuck = _behind_a_cycle(prerequisites)
    return _one_cycle(prerequisites, stuck) if stuck else []


def _behind_a_cycle(prerequisites: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """Kahn's algorithm: what is left when every task whose prerequisites are all done has been taken away."""
    dependents: dict[Node, list[Node]] = {}
    open_count: dict[Node, int] = {}
    for node, above in prerequisites.items():
        inside = [parent for parent in set(above) if parent in prerequisites]
        if inside:
            open_count[node] = len(inside)
            for parent in inside:
                dependents.setdefault(parent, []).append(node)
    ready = [node for node in dependents if node not in open_count]
    for node in ready:
        for child in dependents.get(node, ()):
            open_count[child] -= 1
            if not open_count[child]:
                del open_count[child]
                ready.append(child)
    return set(open_count)


def _one_cycle(prerequisites: Mapping[Node, Sequence[Node]], stuck: set[Node]) -> list[Node]:
    """A ring among `stuck` tasks, the shortest through one of its members, in the order in which they wait."""
    node = min(stuck, key=str)
    seen: set[Node] = set()
    while node not in seen:
        seen.add(node)
        node = next(parent for parent in prerequisites[node] if parent in stuck)
    came_from: dict[Node, Node] = {}
    queue = deque([node])
    while True:
        here = queue.popleft()
        for there in prerequisites[here]:
            if there == node:
                return _path(node, here, came_from)
            if there in stuck and there not in came_from:
                came_from[there] = here
                queue.append(there)


def _path(start: Node, end: Node, came_from: Mapping[Node, Node]) -> list[Node]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
