"""Scheduler: the in-memory engine on its own, for one thread. It has no clock, no store and no workers.

Runnable tasks are ordered by deadline (tasks without one come last), then by higher priority, then by smaller id. The
order is total, so the same calls always give the same results.

A task is in exactly one collection, which is its state. The heap may also contain stale entries; they are recognized by
their value and never outnumber the live ones. In the complexities below, n is the number of unfinished tasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from windlass.core.graph import End, check_fan_in, check_graph, check_unique, unblock
from windlass.core.lifecycle import State
from windlass.core.names import check_type
from windlass.core.task import NewTask, OnFailure
from windlass.errors import DuplicateTask, InvalidTask, NotAllowed, UnknownPrerequisite, UnknownTask

Id: TypeAlias = Hashable
_Entry: TypeAlias = tuple[bool, Any, int, Any]
_Parts: TypeAlias = tuple[Any, ...]


class Effects(Struct, frozen=True):
    """What a call did to other tasks: their ids, in the order in which it happened."""

    unblocked: list[Any]
    """Tasks that became runnable because their last prerequisite ended."""
    cancelled: list[Any]
    """Tasks that were cancelled because a prerequisite failed or was cancelled."""


class _Waiting(Struct):
    """A task with open prerequisites. The edges are a copy, because the caller's sequence may change."""

    task: NewTask
    prerequisites: tuple[Id, ...]
    open: int


class Scheduler:
    """Schedules tasks with deadlines, priorities and prerequisites.

    >>> scheduler = Scheduler()
    >>> scheduler.add_tasks([NewTask(id="a", deadline=3), NewTask(id="b", deadline=1, prerequisites=["a"])])
    Effects(unblocked=[], cancelled=[])
    >>> scheduler.consume_task().id
    'a'
    >>> scheduler.complete_task("a")
    Effects(unblocked=['b'], cancelled=[])

    Any two ids must be comparable, and any two deadlines. As a container, a Scheduler contains its unfinished tasks:
    `len(scheduler)`, `"a" in scheduler`, `while scheduler: ...`.
    """

    def __init__(self) -> None:
        self._waiting: dict[Id, _Waiting] = {}
        self._runnable: dict[Id, NewTask] = {}
        self._leased: dict[Id, NewTask] = {}
        self._ended: dict[State, dict[Id, None]] = {State.COMPLETED: {}, State.FAILED: {}, State.CANCELLED: {}}
        self._homes: dict[State, Mapping[Id, object]] = {
            State.WAITING: self._waiting,
            State.RUNNABLE: self._runnable,
            State.LEASED: self._leased,
            **self._ended,
        }
        # The tasks that wait for each unfinished task. A dict, so that one of a million can be removed in O(1).
        self._dependents: dict[Id, dict[Id, None]] = {}
        self._heap: list[_Entry] = []
        # One id and one deadline, to compare those of new tasks with.
        self._some_id: Any = None
        self._some_deadline: Any = None

    def add_tasks(self, tasks: NewTask | Iterable[NewTask]) -> Effects:
        """Add one task or several: all of them, or none if one is refused.

        A prerequisite is a task of the same batch or a known one, finished or not. If it has already failed or was
        cancelled, the new task is cancelled at once or runs, depending on its `on_failure`. O(log n) per task, O(1)
        per edge.
        """
        check_type("tasks", tasks, (NewTask, Iterable), "pass a NewTask or a list of them")
        batch = [tasks] if isinstance(tasks, NewTask) else list(tasks)
        samples = self._check(batch)
        waiting = {task.id: _waiting(task) for task in batch if task.prerequisites}
        ended = self._check_edges(batch, waiting) if waiting else []
        self._make_runnable([task for task in batch if task.id not in waiting] if waiting else batch)
        # From here on, nothing can be refused.
        self._some_id, self._some_deadline = samples
        return self._make_waiting(waiting, ended) if waiting else Effects([], [])

    def consume_task(self) -> NewTask | None:
        """Lease the first runnable task and return it, including updates; None if there is none.

        O(log n), amortized over the updates and cancellations that left stale entries.
        """
        while self._heap:
            entry = heappop(self._heap)
            task = self._runnable.get(entry[-1])
            if task is not None and entry == _entry(task):
                self._leave_runnable(task.id)
                self._leased[task.id] = task
                return task
        return None

    def complete_task(self, id: Id) -> Effects:
        """Complete a leased task. O(out-degree), and O(log n) for each task that this unblocks."""
        self._leave_leased(id, "complete")
        return self._end([(id, State.COMPLETED)])

    def fail_task(self, id: Id) -> Effects:
        """Fail a leased task. Depending on its `on_failure`, a dependent is cancelled with its own dependents, or runs.

        O(edges of all tasks that end), and O(log n) for each task that this unblocks.
        """
        self._leave_leased(id, "fail")
        return self._end([(id, State.FAILED)])

    def cancel_task(self, id: Id) -> Effects:
        """Cancel an unfinished task, leased or not. For its dependents this is like a failure.

        O(edges of all tasks that end), and O(log n) for each task that this unblocks.
        """
        if id in self._waiting:
            self._leave_waiting(id)
        elif id in self._runnable:
            self._leave_runnable(id)
        else:
            self._leave_leased(id, "cancel")
        return self._end([(id, State.CANCELLED)])

    def update_task(self, id: Id, *, deadline: Any = UNSET, priority: int | UnsetType = UNSET) -> NewTask:
        """Change the deadline or priority of an unfinished task, and return the task. O(log n), amortized."""
        old = self._unfinished(id)
        given = {"deadline": deadline, "priority": priority}
        new = replace(old, **{field: value for field, value in given.items() if value is not UNSET})
        _check_fields(new)
        self._some_deadline = _check_order("deadline", [new], self._some_deadline)
        if id in self._waiting:
            self._waiting[id].task = new
        elif id in self._leased:
            self._leased[id] = new
        elif _entry(new) != _entry(old):
            self._make_runnable([new])
            self._compact_if_stale()
        return new

    def state(self, id: Id) -> State:
        """Return the state of a task. Finished tasks are known until they are forgotten. O(1)."""
        state = self._find(id)
        if state is None:
            raise UnknownTask(id)
        return state

    def counts(self) -> dict[State, int]:
        """Return the number of tasks in each state. O(1)."""
        return {state: len(home) for state, home in self._homes.items()}

    def forget(self, id: Id) -> None:
        """Forget a finished task. Its id can be used again, and is not a known prerequisite any more. O(1)."""
        state = self.state(id)
        if not state.final:
            raise NotAllowed(f"cannot forget task {id!r}: it is {state}; complete, fail or cancel it first")
        del self._ended[state][id]

    def prune(self) -> int:
        """Forget all finished tasks, and return their number. O(their number)."""
        dropped = sum(map(len, self._ended.values()))
        for ended in self._ended.values():
            ended.clear()
        return dropped

    def __len__(self) -> int:
        """Return the number of unfinished tasks. O(1)."""
        return len(self._waiting) + len(self._runnable) + len(self._leased)

    def __contains__(self, id: Id) -> bool:
        """Return True if the task is unfinished. O(1)."""
        return id in self._waiting or id in self._runnable or id in self._leased

    def _check(self, batch: list[NewTask]) -> tuple[Any, Any]:
        """Refuse invalid tasks. Return an id and a deadline to compare those of the next batch with."""
        for task in batch:
            _check_fields(task)
        ids = [task.id for task in batch]
        check_unique(ids)
        if known := [id for id in ids if self._find(id) is not None]:
            raise DuplicateTask(known)
        return _check_order("id", batch, self._some_id), _check_order("deadline", batch, self._some_deadline)

    def _check_edges(self, batch: list[NewTask], waiting: dict[Id, _Waiting]) -> list[tuple[Id, State]]:
        """Refuse duplicates, cycles and unknown prerequisites. Return the prerequisites that have ended, and how."""
        own = {task.id for task in batch}
        edges = {id: newcomer.prerequisites for id, newcomer in waiting.items()}
        outside = {above: self._find(above) for many in edges.values() for above in many if above not in own}
        if unknown := [id for id, state in outside.items() if state is None]:
            raise UnknownPrerequisite(unknown)
        check_graph(edges)
        return [(id, state) for id, state in outside.items() if state is not None and state.final]

    def _make_waiting(self, newcomers: dict[Id, _Waiting], ended: list[tuple[Id, State]]) -> Effects:
        """Add tasks with open prerequisites, and apply the prerequisites that have already ended."""
        self._waiting.update(newcomers)
        for id, newcomer in newcomers.items():
            for above in newcomer.prerequisites:
                self._dependents.setdefault(above, {})[id] = None
        return self._end(ended)

    def _make_runnable(self, tasks: list[NewTask]) -> None:
        """Add tasks to the heap and to the runnable ones, or change nothing if that fails."""
        try:
            for task in tasks:
                heappush(self._heap, _entry(task))
        except Exception as error:
            # `_check_order` compared it with one value only; a comparison of a caller's class may fail with another.
            self._compact()
            raise InvalidTask(f"a deadline or an id cannot be compared with the others: {error}") from error
        for task in tasks:
            self._runnable[task.id] = task

    def _end(self, ended: list[tuple[Id, State]]) -> Effects:
        """Record these ends and those of dependents that they cancel. A loop, so any depth is fine."""
        effects = Effects([], [])
        for id, state in ended:
            self._ended[state][id] = None
            for below in self._dependents.pop(id, ()):
                match self._notify_dependents(below, id, End(state)):
                    case State.RUNNABLE:
                        effects.unblocked.append(below)
                    case State.CANCELLED:
                        effects.cancelled.append(below)
                        ended.append((below, State.CANCELLED))
                    case _:
                        pass
        return effects

    def _notify_dependents(self, id: Id, prerequisite: Id, end: End) -> State:
        """Apply the end of a prerequisite to its dependents."""
        waiting = self._waiting[id]
        policy = OnFailure(waiting.task.on_failure)
        state, waiting.open, _, _ = unblock(State.WAITING, waiting.open, policy, [(prerequisite, end)], due=0, now=0)
        if state is not State.WAITING:
            self._leave_waiting(id)
        if state is State.RUNNABLE:
            self._make_runnable([waiting.task])
        return state

    def _leave_waiting(self, id: Id) -> None:
        for above in self._waiting.pop(id).prerequisites:
            if siblings := self._dependents.get(above):
                siblings.pop(id, None)
                if not siblings:
                    del self._dependents[above]

    def _leave_runnable(self, id: Id) -> None:
        del self._runnable[id]
        self._compact_if_stale()

    def _leave_leased(self, id: Id, move: str) -> None:
        if self._leased.pop(id, None) is None:
            state = self.state(id)
            raise NotAllowed(f"cannot {move} task {id!r}: it is {state}" + ("" if state.final else ", not leased"))

    def _compact_if_stale(self) -> None:
        """Rebuild the heap if stale entries outnumber live ones. The moves that made them stale pay for it."""
        if len(self._heap) > 2 * len(self._runnable):
            self._compact()

    def _compact(self) -> None:
        heap = [_entry(task) for task in self._runnable.values()]
        heapify(heap)
        self._heap = heap

    def _unfinished(self, id: Id) -> NewTask:
        if waiting := self._waiting.get(id):
            return waiting.task
        if task := self._runnable.get(id) or self._leased.get(id):
            return task
        raise NotAllowed(f"cannot update task {id!r}: it is {self.state(id)}")

    def _find(self, id: Id) -> State | None:
        for state, home in self._homes.items():
            if id in home:
                return state
        return None


def _entry(task: NewTask) -> _Entry:
    """Return the heap entry of a task. The flag avoids comparing a missing deadline with a real one."""
    return task.deadline is None, task.deadline, -task.priority, task.id


def _waiting(task: NewTask) -> _Waiting:
    try:
        prerequisites = tuple(dict.fromkeys(task.prerequisites))
    except TypeError as error:
        raise InvalidTask(f"prerequisites={task.prerequisites!r} of task {task.id!r} are not ids: {error}") from error
    check_fan_in(task.id, prerequisites)
    return _Waiting(task, prerequisites, len(prerequisites))


def _check_fields(task: Any) -> None:
    """Refuse fields of the wrong type."""
    check_type("task", task, NewTask, "pass a NewTask")
    if task.id is None or type(task.id).__hash__ is None:
        raise InvalidTask(f"id={task.id!r} is not a valid id. Give each task a hashable, comparable id.")
    if type(task.priority) is not int:
        raise InvalidTask(f"priority={task.priority!r} of task {task.id!r} is not an integer")
    if task.on_failure not in _POLICIES:
        raise InvalidTask(f"on_failure={task.on_failure!r} of task {task.id!r} is unknown. Use 'cancel' or 'run'.")
    if isinstance(task.prerequisites, str | bytes):
        raise InvalidTask(f"prerequisites={task.prerequisites!r} of task {task.id!r} is a string. Pass a list of ids.")


_POLICIES = tuple(OnFailure)


def _check_order(field: str, tasks: Iterable[NewTask], sample: Any) -> Any:
    """Refuse a value that cannot be compared with `sample`, or the first value. Return a sample."""
    for task in tasks:
        value = getattr(task, field)
        if value is not None:
            sample = value if sample is None else sample
            if not _orderable(value, sample):
                raise InvalidTask(f"{field}={value!r} of task {task.id!r} cannot be compared with {sample!r}")
    return sample


def _orderable(one: Any, other: Any) -> bool:
    """Return True if two values can be ordered, tuples item by item. A NaN cannot."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_orderable, cast(_Parts, one), cast(_Parts, other)))
    try:
        return bool(one < other or other < one or one == other)
    except (TypeError, ValueError, ArithmeticError):
        return False
