"""Prerequisites: check that a batch has no cycle, and decide what the end of a prerequisite does to its dependents.

Graphs are walked with loops, never with recursion, because a chain may have a million tasks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from windlass.core.lifecycle import State
from windlass.core.task import OnFailure, TaskId, Wait
from windlass.core.times import Micros
from windlass.core.waits import end_of_wait
from windlass.errors import CycleFound, DuplicateTask, InvalidTask

Node = TypeVar("Node", bound=Hashable)


MAX_PREREQUISITES = 100_000
CYCLE_BUDGET = 4_096
"""The number of tasks that a submit searches for a cycle before it leaves the search to the sweep."""
MAX_PLACEHOLDERS = 10_000
"""The largest number of open forward references of a workflow."""


class End(StrEnum):
    """How something that tasks wait for has ended: a task, a placeholder, or an unsealed workflow."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    MISSING = "missing"
    """A placeholder whose task was never submitted."""
    SEALED = "sealed"
    """The workflow was sealed."""

    @property
    def good(self) -> bool:
        """True if dependents may run whatever their `on_failure`."""
        return self in (End.COMPLETED, End.SEALED)


_ENDED = {
    End.FAILED: "failed",
    End.CANCELLED: "was cancelled",
    End.EXPIRED: "expired",
    End.MISSING: "was never submitted",
}
_CASCADE = re.compile(f"Prerequisite .+ ({'|'.join(_ENDED.values())})\\.")
"""The reasons that `prerequisite_reason` gives. The statement `add_taken_down` looks for the same ones."""


class Unblocked(NamedTuple):
    """A waiting task after some of its prerequisites have ended."""

    state: State
    waiting: int
    reason: str | None
    due: Micros
    """When the task may run. Not in the past for a task that has just become runnable."""


def check_graph(prerequisites: Mapping[Node, Sequence[Node]]) -> None:
    """Raise `CycleFound` if a task waits for itself, directly or through others. O(tasks + prerequisites).

    Prerequisites outside the mapping are ignored.
    """
    cycle = find_any_cycle(prerequisites)
    if cycle:
        raise CycleFound(cycle)


def check_unique(ids: Sequence[Node]) -> None:
    """Raise `DuplicateTask` if an id occurs twice."""
    if len(set(ids)) < len(ids):
        seen: set[Node] = set()
        raise DuplicateTask(list(dict.fromkeys(id for id in ids if id in seen or seen.add(id))))


def check_fan_in(owner: object, prerequisites: Sequence[object]) -> None:
    """Raise `InvalidTask` for a task with too many prerequisites."""
    if len(prerequisites) > MAX_PREREQUISITES:
        raise InvalidTask(
            f"prerequisites of {owner!r}: {len(prerequisites):,} given, at most {MAX_PREREQUISITES:,} allowed. "
            "Add intermediate tasks that join groups of them."
        )


def unblock(
    state: State,
    waiting: int,
    on_failure: OnFailure,
    ended: Iterable[tuple[object, End]],
    *,
    due: Micros,
    now: Micros,
    wait: Wait | None = None,
) -> Unblocked:
    """Return what a task becomes when these prerequisites have ended. Each must be passed exactly once.

    A task that has itself ended keeps its state, but still counts its open prerequisites for a later retry. One with a
    `wait` begins to wait, and is due when that ends.
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
    if wait is not None:
        return Unblocked(State.SCHEDULED, waiting, None, end_of_wait(wait, due, now))
    return Unblocked(State.SCHEDULED if due > now else State.RUNNABLE, waiting, None, max(due, now))


def prerequisite_reason(prerequisite: object, end: End) -> str:
    """Return the reason of a task that is cancelled because of a prerequisite."""
    return f"Prerequisite {prerequisite} {_ENDED[end]}."


def was_taken_down(state: State, reason: str | None) -> bool:
    """Return True if a task was cancelled because of a prerequisite, and not by an operator."""
    return state is State.CANCELLED and reason is not None and _CASCADE.fullmatch(reason) is not None


def find_cycle(
    task: TaskId, above: Callable[[TaskId], Iterable[TaskId]], budget: int = CYCLE_BUDGET
) -> tuple[list[TaskId] | None, bool]:
    """Return the cycle through `task` or None, and True if the search visited every ancestor within `budget`."""
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
    """Return the members of one cycle; empty if there is none."""
    stuck = _behind_a_cycle(prerequisites)
    return _one_cycle(prerequisites, stuck) if stuck else []


def _behind_a_cycle(prerequisites: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """Return the tasks in a cycle or behind one (Kahn's algorithm)."""
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
    """Return a cycle among `stuck` tasks: the shortest one through one of its members."""
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
