"""Scheduler: the in-memory engine alone, for one thread of one process. It has no clock, no store and no workers.

Among the runnable tasks the earliest deadline comes first, and a task without one after all others; equal deadlines
go by higher priority, then by smaller id. The order is total, so the same calls always give the same answers.

A task stands in exactly one collection, and that is its state. The heap beside them may also hold stale entries: they
are told by their value and never outnumber the live ones. In the complexities below, n counts unfinished tasks.
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
    """What one call did beyond the task that it names: ids, in the order in which it happened."""

    unblocked: list[Any]
    """Their last open prerequisite has ended: they are runnable."""
    cancelled: list[Any]
    """A prerequisite of theirs has ended badly."""


class _Waiting(Struct):
    """A task with open prerequisites. The edges are a copy: the caller's own sequence may change at any time."""

    task: NewTask
    prerequisites: tuple[Id, ...]
    open: int


class Scheduler:
    """Tasks with deadlines, priorities and prerequisites, handed out one by one.

    >>> scheduler = Scheduler()
    >>> scheduler.add_tasks([NewTask(id="a", deadline=3), NewTask(id="b", deadline=1, prerequisites=["a"])])
    Effects(unblocked=[], cancelled=[])
    >>> scheduler.consume_task().id
    'a'
    >>> scheduler.complete_task("a")
    Effects(unblocked=['b'], cancelled=[])

    Ids are of one kind, and so are deadlines, such that any two of them can be ordered. As a container a Scheduler
    holds its unfinished tasks: `len(scheduler)`, `"a" in scheduler`, `while scheduler: ...`.
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
        # For an unfinished task, exactly those that wait for it; a dict, so that one of a million can leave in O(1).
        self._dependents: dict[Id, dict[Id, None]] = {}
        self._heap: list[_Entry] = []
        # One value of each kind, against which every newcomer is held.
        self._some_id: Any = None
        self._some_deadline: Any = None

    def add_tasks(self, tasks: NewTask | Iterable[NewTask]) -> Effects:
        """Add one task or many: all of them or, when one is refused, none.

        A prerequisite is a task of the same batch or a known one, finished or not. If it has already ended badly, the
        new task is cancelled at birth or runs, as its `on_failure` says. O(log n) for each task, O(1) for each edge.
        """
        check_type("tasks", tasks, (NewTask, Iterable), "pass a NewTask or a list of them")
        batch = [tasks] if isinstance(tasks, NewTask) else list(tasks)
        samples = self._check(batch)
        waiting = {task.id: _waiting(task) for task in batch if task.prerequisites}
        ended = self._check_edges(batch, waiting) if waiting else []
        self._make_runnable([task for task in batch if task.id not in waiting] if waiting else batch)
        # From here on nothing is refused.
        self._some_id, self._some_deadline = samples
        return self._make_waiting(waiting, ended) if waiting else Effects([], [])

    def consume_task(self) -> NewTask | None:
        """Lease the first runnable task and return it as it stands, updates included; None when there is none.

        O(log n), amortised over the updates and cancellations that left stale entries behind.
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
        """End a leased task well. O(out-degree), and O(log n) for each task that this unblocks."""
        self._leave_leased(id, "complete")
        return self._end([(id, State.COMPLETED)])

    def fail_task(self, id: Id) -> Effects:
        """End a leased task badly. As its `on_failure` says, a dependent is cancelled, and so on down, or runs.

        O(edges of all tasks that end), and O(log n) for each task that this unblocks.
        """
        self._leave_leased(id, "fail")
        return self._end([(id, State.FAILED)])

    def cancel_task(self, id: Id) -> Effects:
        """End any unfinished task, a leased one too. To its dependents this is a bad end, like a failure.

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
        """Change the deadline or priority of an unfinished task, and return the task. O(log n), amortised."""
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
        """Where the task stands. Finished tasks are known until they are forgotten. O(1)."""
        state = self._find(id)
        if state is None:
            raise UnknownTask(id)
        return state

    def counts(self) -> dict[State, int]:
        """How many tasks stand in each state. O(1)."""
        return {state: len(home) for state, home in self._homes.items()}

    def forget(self, id: Id) -> None:
        """Drop the last trace of a finished task: its id is free again, and no prerequisite any more. O(1)."""
        state = self.state(id)
        if not state.final:
            raise NotAllowed(f"cannot forget task {id!r}: it is {state}; complete, fail or cancel it first")
        del self._ended[state][id]

    def prune(self) -> int:
        """Forget every finished task, and return how many there were. O(their number)."""
        dropped = sum(map(len, self._ended.values()))
        for ended in self._ended.values():
            ended.clear()
        return dropped

    def __len__(self) -> int:
        """How many tasks are unfinished. O(1)."""
        return len(self._waiting) + len(self._runnable) + len(self._leased)

    def __contains__(self, id: Id) -> bool:
        """Whether the task is unfinished. O(1)."""
        return id in self._waiting or id in self._runnable or id in self._leased

    def _check(self, batch: list[NewTask]) -> tuple[Any, Any]:
        """Refuse tasks that cannot be kept or ordered; return an id and a deadline to hold the next batch against."""
        for task in batch:
            _check_fields(task)
        ids = [task.id for task in batch]
        check_unique(ids)
        if known := [id for id in ids if self._find(id) is not None]:
            raise DuplicateTask(known)
        return _check_order("id", batch, self._some_id), _check_order("deadline", batch, self._some_deadline)

    def _check_edges(self, batch: list[NewTask], waiting: dict[Id, _Waiting]) -> list[tuple[Id, State]]:
        """Refuse a batch that is no proper graph; return the prerequisites that have already ended, and how."""
        own = {task.id for task in batch}
        edges = {id: newcomer.prerequisites for id, newcomer in waiting.items()}
        outside = {above: self._find(above) for many in edges.values() for above in many if above not in own}
        if unknown := [id for id, state in outside.items() if state is None]:
            raise UnknownPrerequisite(unknown)
        check_graph(edges)
        return [(id, state) for id, state in outside.items() if state is not None and state.final]

    def _make_waiting(self, newcomers: dict[Id, _Waiting], ended: list[tuple[Id, State]]) -> Effects:
        """Let tasks wait. What ended before they came ends once more, for them alone."""
        self._waiting.update(newcomers)
        for id, newcomer in newcomers.items():
            for above in newcomer.prerequisites:
                self._dependents.setdefault(above, {})[id] = None
        return self._end(ended)

    def _make_runnable(self, tasks: list[NewTask]) -> None:
        """Put tasks on the heap and among the runnable, or leave both as they were."""
        try:
            for task in tasks:
                heappush(self._heap, _entry(task))
        except Exception as error:
            # `_check_order` held it against one value only; with a class of the caller's own, another may refuse it.
            self._compact()
            raise InvalidTask(f"a deadline or an id cannot be ordered with the others: {error}") from error
        for task in tasks:
            self._runnable[task.id] = task

    def _end(self, ended: list[tuple[Id, State]]) -> Effects:
        """Note these ends and carry them down. The list grows while it is read, so no depth is too deep."""
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
        """What becomes of a waiting task now that one of its prerequisites has ended."""
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
        """Keep stale entries from outnumbering live ones; as many moves have paid for the rebuild as it costs."""
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
    """The task's place in the order. The flag keeps a missing deadline from being compared with a real one."""
    return task.deadline is None, task.deadline, -task.priority, task.id


def _waiting(task: NewTask) -> _Waiting:
    try:
        prerequisites = tuple(dict.fromkeys(task.prerequisites))
    except TypeError as error:
        raise InvalidTask(f"prerequisites={task.prerequisites!r} of task {task.id!r} are not ids: {error}") from error
    check_fan_in(task.id, prerequisites)
    return _Waiting(task, prerequisites, len(prerequisites))


def _check_fields(task: Any) -> None:
    """Refuse what the types forbid; nobody else has looked at them yet."""
    check_type("task", task, NewTask, "pass a NewTask")
    if task.id is None or type(task.id).__hash__ is None:
        raise InvalidTask(f"id={task.id!r} is no id; give each task of a Scheduler a hashable, orderable one")
    if type(task.priority) is not int:
        raise InvalidTask(f"priority={task.priority!r} of task {task.id!r} is not a whole number")
    if task.on_failure not in _POLICIES:
        raise InvalidTask(f"on_failure={task.on_failure!r} of task {task.id!r} is not taken; give 'cancel' or 'run'")
    if isinstance(task.prerequisites, str | bytes):
        raise InvalidTask(f"prerequisites={task.prerequisites!r} of task {task.id!r} is one text; give a list of ids")


_POLICIES = tuple(OnFailure)


def _check_order(field: str, tasks: Iterable[NewTask], sample: Any) -> Any:
    """Refuse a value that has no order with `sample`, or with the first value if there is no sample; return it."""
    for task in tasks:
        value = getattr(task, field)
        if value is not None:
            sample = value if sample is None else sample
            if not _orderable(value, sample):
                raise InvalidTask(f"{field}={value!r} of task {task.id!r} cannot be ordered with {sample!r}")
    return sample


def _orderable(one: Any, other: Any) -> bool:
    """Whether these two have an order, tuples part by part. A NaN has none, not even with itself."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_orderable, cast(_Parts, one), cast(_Parts, other)))
    try:
        return bool(one < other or other < one or one == other)
    except (TypeError, ValueError, ArithmeticError):
        return False
