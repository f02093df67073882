"""Updates and retries of tasks by operators."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from windlass.core.lifecycle import State
from windlass.core.ordering import Place, Queue, place
from windlass.core.task import Change, Task, Wait
from windlass.core.times import Micros, when
from windlass.core.validation import check_priority
from windlass.core.waits import end_of_wait
from windlass.errors import NotAllowed


class Version(Struct, frozen=True, kw_only=True):
    """The version of a task that an operator saw: its lease, its state, and the fields that an update can change."""

    generation: int
    fence: int
    state: State
    cancel_requested: bool
    priority: int
    deadline: Micros | None
    due: Micros
    expires: Micros | None


def version_of(task: Task) -> Version:
    """Return the version of a task."""
    return Version(**{field: getattr(task, field) for field in Version.__struct_fields__})


class UpdatedFields(Struct, frozen=True, kw_only=True):
    """The fields of a task after an update, and its new place."""

    state: State
    priority: int
    deadline: Micros | None
    expires: Micros | None
    due: Micros
    first_due: Micros
    place: Place

    def version(self, before: Task) -> Version:
        """Return the version of the task after the update."""
        changed = {"state": self.state, "priority": self.priority, "deadline": self.deadline, "due": self.due}
        return replace(version_of(before), **changed, expires=self.expires)

    def differs(self, before: Task, first_due: Micros) -> bool:
        """Return True if the update changes anything."""
        return self.version(before) != version_of(before) or self.first_due != first_due


def update_fields(task: Task, first_due: Micros, queue: Queue, change: Change, now: Micros) -> UpdatedFields:
    """Apply a change. A due time in the future makes a runnable task scheduled, and a past one the reverse."""
    if task.state.final:
        raise NotAllowed(f"task {task.id} is {task.state}; only an unfinished task can be changed")
    priority = task.priority if isinstance(change.priority, UnsetType) else change.priority
    check_priority(priority)
    deadline = task.deadline if change.deadline is UNSET else when(change.deadline, now, "deadline")
    expires = task.expires if change.expires is UNSET else when(change.expires, now, "expires")
    due, state = task.due, task.state
    if change.at is not UNSET:
        first_due = due = when(change.at, now, "at") or now
        if task.wait is None:
            state = _state_when_due(task.state, later=due > now)
    return UpdatedFields(
        state=state,
        priority=priority,
        deadline=deadline,
        expires=expires,
        due=due,
        first_due=first_due,
        place=place(queue, priority=priority, deadline=deadline, due=first_due),
    )


class EndedTask(Protocol):
    """A stored task that has failed, expired or was cancelled."""

    @property
    def generation(self) -> int: ...
    @property
    def expires(self) -> Micros | None: ...
    @property
    def due(self) -> Micros: ...
    @property
    def wait(self) -> Wait | None: ...


def retried_fields(task: EndedTask, waiting: int, now: Micros) -> dict[str, Any]:
    """Return the fields that a retry changes: the counters are reset, and a past expiry time is removed.

    A wait begins again, with its whole time.
    """
    ready = State.RUNNABLE if task.wait is None else State.SCHEDULED
    return {
        "state": State.WAITING if waiting else ready,
        "waiting": waiting,
        "generation": task.generation + 1,
        "attempts": 0,
        "crashes": 0,
        "losses": 0,
        "cancel_requested": False,
        "reason": None,
        "finished": None,
        "due": now if task.wait is None else end_of_wait(task.wait, task.due if task.due > now else None, now),
        "expires": None if task.expires is not None and task.expires <= now else task.expires,
    }


def restored_fields(task: EndedTask, waiting: int, now: Micros) -> dict[str, Any]:
    """Return the fields that change when a task goes back to where it was before it ended.

    It keeps its due time and its expiry time, and a wait ends when it would have. Like a retry, it resets the counters:
    a task that ended in its last attempt would otherwise exceed its limit.
    """
    later = task.wait is not None or task.due > now
    ready = State.SCHEDULED if later else State.RUNNABLE
    return {
        **retried_fields(task, waiting, now),
        "state": State.WAITING if waiting else ready,
        "due": task.due,
        "expires": task.expires,
    }


def is_stopped_by_request(task: Task) -> bool:
    """Return True if a cancel asks a task to stop, or has asked it, because it was running. The request stays."""
    return task.state is State.LEASED or task.cancel_requested


def _state_when_due(state: State, *, later: bool) -> State:
    if state is State.RUNNABLE and later:
        return State.SCHEDULED
    if state in (State.SCHEDULED, State.RETRYING) and not later:
        return State.RUNNABLE
    return state
