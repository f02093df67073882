"""A running task adds steps to its workflow, and may continue after them without holding a slot.

The steps are written in the transaction that ends the attempt, under its lease: all of them with the end, or nothing.
So an attempt that fails adds nothing, one that is retried adds nothing twice, and one that has lost its lease adds
nothing at all.

With `then`, the task does not end. It waits for the steps as for any prerequisites, and then runs as another call: with
another handler, arguments and options, but the same id, key, priority, deadline and expiry. So its dependents wait for
that call, and its result is theirs. Its counters start again, because it is another handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.admission import Scoped
from windlass.core.graph import End, find_cycle, unblock
from windlass.core.lifecycle import State
from windlass.core.ordering import Place, Queue, place
from windlass.core.references import referenced_ids
from windlass.core.submission import Draft, draft
from windlass.core.task import Added, NewTask, Origin, Task, TaskId
from windlass.core.times import Micros, when
from windlass.errors import (
    CycleFound,
    InvalidPayload,
    InvalidTask,
    KeyBusy,
    KeyConflict,
    NotAllowed,
    QueueFull,
    UnknownPrerequisite,
)

MAX_ADDED = 10_000
"""How many steps one attempt may add."""
MAX_DEPTH = 100
"""How many tasks may add each other. It stops a handler that adds itself forever; `then` alone adds no depth."""


REFUSALS = (InvalidTask, KeyConflict, KeyBusy, QueueFull, NotAllowed)
"""The errors with which a store refuses steps. The attempt has then failed.

A settle waits for a busy key for up to two seconds, as a submit does.
"""


class AddedDrafts(NamedTuple):
    """Checked steps, and the task as it continues."""

    steps: list[Draft]
    then: Draft | None


class Continuation(Struct, frozen=True, kw_only=True):
    """A task after it has continued: what changes, besides its counters, which are reset."""

    state: State
    """Waiting, scheduled, or cancelled because a prerequisite has already ended badly."""
    waiting: int
    reason: str | None
    due: Micros
    place: Place
    edges: Sequence[tuple[UUID, bool]]
    """Everything it waits for, each with True if that has already ended."""
    then: Draft

    @property
    def finished(self) -> bool:
        """True if it has ended instead."""
        return self.state.final


def check_added(parent: Task, added: Added, now: Micros, entropy: Callable[[int], Callable[[], int]]) -> AddedDrafts:
    """Check what an attempt adds, and place it in the tenant and workflow of its task. Raise `InvalidTask`."""
    if len(added.steps) > MAX_ADDED:
        raise InvalidTask(
            f"{len(added.steps):,} steps added by one task; at most {MAX_ADDED:,} are allowed. Add tasks that add more."
        )
    depth = 1 if parent.rules.origin is None else parent.rules.origin.depth + 1
    if added.steps and depth > MAX_DEPTH:
        raise InvalidTask(
            f"{depth:,} tasks have added each other; at most {MAX_DEPTH} may. Does a handler add itself without an end?"
        )
    steps = draft([_adopt(parent, new, Origin(parent.id, depth)) for new in added.steps], now, entropy)
    for one in steps:
        _check_references(one)
    if any(one.id == parent.id for one in steps):
        raise InvalidTask(f"key={parent.key!r} is that of the running task itself. Use another key.")
    if added.then is None:
        return AddedDrafts(steps, None)
    then = replace(_adopt(parent, added.then, parent.rules.origin), key=None, id=None, wait=None, unique=None)
    [continuation] = draft([then], now, entropy)
    _check_references(continuation)
    if parent.id in continuation.prerequisites or any(parent.id in one.prerequisites for one in steps):
        raise InvalidTask(
            f"prerequisites: {parent.id} would wait for itself. The steps may not come after the running task."
        )
    return AddedDrafts(steps, replace(continuation, id=parent.id))


def continue_as(
    parent: Task, then: Draft, queue: Queue, first_due: Micros, ends: Mapping[UUID, End], now: Micros
) -> Continuation:
    """Return the task as it continues. `ends` has the prerequisites that have ended; all others are open."""
    new = then.new
    edges = [(above, above in ends) for above in then.prerequisites]
    due = when(new.delay if new.at is None else new.at, now, "delay" if new.at is None else "at") or now
    ended = [(above, ends[above]) for above, over in edges if over]
    after = unblock(State.WAITING, len(edges), new.on_failure, ended, due=due, now=now)
    # Due at once is left to the sweep: it is rare, because a new step has hardly ended already.
    state = State.SCHEDULED if after.state is State.RUNNABLE else after.state
    return Continuation(
        state=state,
        waiting=after.waiting,
        reason=after.reason,
        due=max(due, now) if state is not State.SCHEDULED else after.due,
        place=place(queue, priority=parent.priority, deadline=parent.deadline, due=first_due),
        edges=edges,
        then=then,
    )


def find_outside(drafts: AddedDrafts) -> set[TaskId]:
    """Return the prerequisites of the steps and of the task itself that are not among the steps."""
    then = () if drafts.then is None else drafts.then.prerequisites
    return {*then, *(above for one in drafts.steps for above in one.prerequisites)} - {one.id for one in drafts.steps}


def check_outside(parent: Task, drafts: AddedDrafts, find: Callable[[TaskId], Scoped | None]) -> None:
    """Raise `UnknownPrerequisite` for prerequisites of the task itself that do not exist or are of another workflow."""
    outside = find_outside(drafts._replace(steps=[])) - {one.id for one in drafts.steps}
    unknown = sorted(above for above in outside if not _is_near(parent, find(above)))
    if unknown:
        raise UnknownPrerequisite(unknown, [parent.key or parent.id])


def check_no_cycle(parent: Task, drafts: AddedDrafts, above: Callable[[TaskId], Iterable[TaskId]]) -> None:
    """Raise `CycleFound` if the task would wait for itself. `above` returns the open prerequisites of a stored task."""
    if drafts.then is None or not find_outside(drafts):
        return
    own = {one.id: one.prerequisites for one in (*drafts.steps, drafts.then)}
    members, _ = find_cycle(parent.id, lambda id: own[id] if id in own else above(id))
    if members:
        raise CycleFound(members)


def _is_near(parent: Task, there: Scoped | None) -> bool:
    return there is not None and there.tenant == parent.tenant and there.workflow in (None, parent.workflow)


def _adopt(parent: Task, new: NewTask, origin: Origin | None) -> NewTask:
    """Return a step in the tenant and workflow of the task that adds it, whatever it says itself."""
    trace = new.trace or parent.rules.trace
    return replace(new, tenant=parent.tenant, workflow=parent.workflow, origin=origin, trace=trace)


def _check_references(one: Draft) -> None:
    """Refuse the result of a task that is not a prerequisite: stores compare the tenants of prerequisites only."""
    foreign = [id for id in referenced_ids(one.args) if id not in one.prerequisites]
    if foreign:
        raise InvalidPayload(f"args: {foreign[0]} is referenced but is not a prerequisite. Name it in `after`.")
